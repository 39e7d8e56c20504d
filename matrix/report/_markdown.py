"""The report in short, as Markdown for a CI job's summary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from matrix.report._changes import ChangeList, Group
from matrix.report._entry import Text
from matrix.report._page import Page

__all__ = ["markdown"]

_MOST: Final = 40
"""Rows of one table: GitHub refuses a summary of more than a megabyte."""

_ESCAPES: Final = str.maketrans(
    {mark: f"\\{mark}" for mark in "\\`*_{}[]()#!|~$@:"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)
"""Every mark that makes markup inside a line; a colon, since it makes addresses links."""


def markdown(page: Page) -> str:
    """What a reviewer must know: verdict, changes, unexpected faults, what did not run."""
    return "\n".join(_lines(page)) + "\n"


def _lines(page: Page) -> Iterator[str]:
    verdict = f"{page.red} of {page.total} cells unexpected" if page.red else "all as expected"
    yield f"## dflash-matrix: {verdict if page.total else 'no cells'}"
    yield ""
    yield from (f"- {_md(line)}" for line in page.headlines)
    if page.counts:
        yield f"- {', '.join(f'{count} {outcome}' for outcome, _, count in page.counts)}"
    if page.injected:
        yield f"- **injected**: {_md(', '.join(page.injected))}; nothing here is the engine's own"
    yield from _changes(page)
    yield from _faults(page)
    yield from _scores(page)
    yield from _inputs(page)
    rows = [(r.what, r.reason, r.why, str(r.cells or "")) for r in page.absent if not r.chosen]
    yield from _table("Did not run", ("what", "reason", "why", "cells"), rows)
    yield from _listed("Expectations that nothing needed", map(_text, page.unmatched))
    yield from _listed("Notes on the journals", map(_md, page.problems))


def _changes(page: Page) -> Iterator[str]:
    if page.changes is None:
        return
    yield ""
    yield "### Since the baseline"
    yield ""
    yield ", ".join(f"{found.total} {found.name}" for found in page.changes)
    yield from _listed("Not comparable in full", map(_md, page.reasons))
    for found in page.changes:
        if found.name != "new":
            yield from _change_list(found)


def _change_list(found: ChangeList) -> Iterator[str]:
    for group in found.groups[:_MOST]:
        yield ""
        cells = f"{len(group.items)} cell{'s' * (len(group.items) > 1)}"
        yield (
            f"**{found.name}** {_md(group.engine)}: {cells}, {_md(group.before)} "
            f"\N{RIGHTWARDS ARROW} {_md(group.after)}"
        )
        yield from _group(group)


def _group(group: Group) -> Iterator[str]:
    for item in group.items[:5]:
        yield f"- {_md(item.pair)} / {_md(item.clause)}"
    if len(group.items) > 5:
        yield f"- and {len(group.items) - 5} more"
    if group.evidence:
        yield f"- {_md(group.evidence)}"
    if group.repro:
        yield ""
        yield from _fenced(group.repro)


def _faults(page: Page) -> Iterator[str]:
    rows = [
        (
            row.label,
            str(len(row.cells)),
            ", ".join(row.engines),
            ", ".join(row.pairs[:5]),
            ", ".join(row.clauses[:8]),
            row.evidence,
        )
        for row in page.faults
        if row.red
    ]
    heads = ("fault", "cells", "engine", "pairs", "clauses", "evidence of the first")
    yield from _table("Unexpected", heads, rows)


def _scores(page: Page) -> Iterator[str]:
    rows = [
        (score.title, ", ".join(f"{name} {value}" for name, value in score.facts))
        for score in page.scores
    ]
    yield from _table("Self-check", ("engine", "score"), rows)


def _inputs(page: Page) -> Iterator[str]:
    rows = [
        (found.title, clause.outcome, clause.clause, clause.message)
        for found in page.preflights
        for clause in found.clauses
        if clause.outcome in ("fail", "warn")
    ]
    yield from _table("Preflight", ("pair", "outcome", "clause", "why"), rows)
    places = [
        (f.severity, f.rule, f.place, f.message) for scan in page.scans for f in scan.findings
    ]
    yield from _table("Scan", ("severity", "rule", "place", "finding"), places)


def _table(title: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield f"### {title}"
    yield ""
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for row in rows[:_MOST]:
        yield f"| {' | '.join(map(_md, row))} |"
    if len(rows) > _MOST:
        yield ""
        yield f"and {len(rows) - _MOST} more in the report"


def _listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    shown = list(lines)
    if shown:
        yield ""
        yield f"{title}:"
        yield ""
        yield from (f"- {line}" for line in shown[:_MOST])
        if len(shown) > _MOST:
            yield f"- and {len(shown) - _MOST} more"


def _fenced(line: str) -> Iterator[str]:
    longest = max(map(len, re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}sh"
    yield line
    yield fence


def _text(text: Text) -> str:
    shown = _md(text.text)
    # An address holds no space and no angle bracket, so nothing ends it early.
    return f"{shown} ([link](<{text.link}>))" if text.link else shown


def _md(text: str) -> str:
    """Text that no reader of Markdown takes for markup, on one line."""
    return " ".join(text.split())[:1000].translate(_ESCAPES)
