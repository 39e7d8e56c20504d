"""The whole report as plain data; the template only lays it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from matrix.report._entry import Entry, Frame, Text, entry, text_of
from matrix.report._logs import ends_of
from matrix.results import (
    LETTERS,
    Cell,
    Change,
    Diff,
    Outcome,
    Record,
    RunHeader,
    family,
    one_line,
    verdict,
)

__all__ = ["ChangeView", "Grid", "Page", "build_page", "changes_of"]

_ORDER: Final = {
    outcome: place
    for place, outcome in enumerate(
        [
            Outcome.FAIL,
            Outcome.CRASH,
            Outcome.OOM,
            Outcome.TIMEOUT,
            Outcome.ERROR,
            Outcome.XPASS,
            Outcome.WARN,
            Outcome.XFAIL,
            Outcome.SKIP,
            Outcome.PASS,
        ]
    )
}
"""What a reader wants to see first."""

_LISTS: Final = ("broken", "gone", "unstable", "fixed", "new")
"""The lists of a diff, in the order in which they are shown."""


@dataclass(frozen=True)
class ChangeView:
    """One change: the cell's key, its id when the report has an entry for it, both verdicts."""

    key: str
    id: str | None
    before: str
    after: str


@dataclass(frozen=True)
class Grid:
    """One engine version at one dtype: pairs by clauses."""

    title: str
    families: tuple[tuple[str, int], ...]
    """Family, and the number of its clauses."""
    clauses: tuple[tuple[str, str], ...]
    """Clause id and sentence."""
    rows: tuple[tuple[str, tuple[tuple[Entry, ...], ...]], ...]
    """Pair, then for each clause its cells: one for each settings."""


@dataclass(frozen=True)
class Page:
    """The report."""

    red: int
    total: int
    counts: tuple[tuple[str, str, int], ...]
    """Outcome, letter, number of cells."""
    headlines: tuple[str, ...]
    """For each run one line: when, what, on what."""
    runs: tuple[tuple[tuple[str, str], ...], ...]
    """For each run its properties: name and value."""
    injected: tuple[str, ...]
    changes: tuple[tuple[str, tuple[ChangeView, ...]], ...] | None
    """The lists of the diff; `None` when no baseline was given."""
    reasons: tuple[str, ...]
    unmatched: tuple[Text, ...]
    problems: tuple[str, ...]
    grids: tuple[Grid, ...]
    entries: tuple[Entry, ...]
    starts: tuple[tuple[str, ...], ...]
    """Engine, pair, settings, outcome, seconds, resident MB."""


def build_page(record: Record, diff: Diff | None, unmatched: Iterable[str], frame: Frame) -> Page:
    """The page of `record`, compared by `diff`; `unmatched` has one line for each such row."""
    # The last line of each cell, as `latest` has it, with the end of its part of the log.
    last = {
        cell.key: (cell, end) for cell, end in zip(record.cells, ends_of(record.cells), strict=True)
    }
    cells = {key: (cell, entry(cell, end, frame)) for key, (cell, end) in last.items()}
    counted = Counter(cell.outcome for cell, _ in cells.values())
    ids = {key: shown.id for key, (_, shown) in cells.items()}
    return Page(
        red=sum(shown.red for _, shown in cells.values()),
        total=len(cells),
        counts=tuple((o.value, LETTERS[o], counted[o]) for o in _ORDER if counted[o]),
        headlines=tuple(_headline(header) for header in record.headers),
        runs=tuple(_properties(header) for header in record.headers),
        injected=tuple(one_line(h.inject.get("path", "?")) for h in record.headers if h.inject),
        changes=_change_lists(diff, ids) if diff else None,
        reasons=tuple(map(one_line, diff.reasons)) if diff else (),
        unmatched=tuple(map(text_of, unmatched)),
        problems=tuple(map(one_line, record.problems)),
        grids=tuple(_grids(list(cells.values()), frame.sentences)),
        entries=tuple(
            shown for _, shown in sorted(cells.values(), key=lambda c: _ORDER[c[0].outcome])
        ),
        starts=tuple(
            (
                one_line(f"{start.engine}@{start.engine_version}"),
                one_line(start.pair),
                one_line(start.settings),
                start.outcome.value,
                f"{start.seconds:.1f}",
                f"{start.rss_mb:.0f}",
            )
            for start in record.starts
        ),
    )


def changes_of(diff: Diff) -> dict[str, str]:
    """Key of each changed cell that is there now -> the list it stands in."""
    return {change.new.key: name for name in _LISTS for change in getattr(diff, name) if change.new}


def _change_lists(
    diff: Diff, ids: Mapping[str, str]
) -> tuple[tuple[str, tuple[ChangeView, ...]], ...]:
    return tuple(
        (name, tuple(_change(change, ids) for change in getattr(diff, name))) for name in _LISTS
    )


def _change(change: Change, ids: Mapping[str, str]) -> ChangeView:
    old, new = change.old, change.new
    present = new or old
    assert present is not None, "a change has at least one side"
    before = one_line(f"{verdict(old)} ({old.engine_version})") if old else "absent"
    after = one_line(f"{verdict(new)} ({new.engine_version})") if new else "absent"
    return ChangeView(one_line(present.key), ids.get(present.key) if new else None, before, after)


def _grids(cells: Sequence[tuple[Cell, Entry]], sentences: Mapping[str, str]) -> list[Grid]:
    def engine(item: tuple[Cell, Entry]) -> tuple[str, str, str]:
        cell, _ = item
        return cell.engine, cell.engine_version, cell.dtype

    ordered = sorted(cells, key=engine)
    return [_grid(name, list(group), sentences) for name, group in groupby(ordered, engine)]


def _grid(
    name: tuple[str, str, str], cells: list[tuple[Cell, Entry]], sentences: Mapping[str, str]
) -> Grid:
    engine, version, dtype = name
    # Clauses of one family side by side, families as they first appear.
    families = list(dict.fromkeys(family(cell.clause) for cell, _ in cells))
    known = dict.fromkeys(cell.clause for cell, _ in cells)
    clauses = sorted(known, key=lambda clause: families.index(family(clause)))
    pairs = dict.fromkeys(cell.pair for cell, _ in cells)
    places: dict[tuple[str, str], list[Entry]] = {}
    for cell, shown in cells:
        places.setdefault((cell.pair, cell.clause), []).append(shown)
    return Grid(
        title=one_line(f"{engine} {version}, {dtype}"),
        families=tuple((one_line(f), sum(family(c) == f for c in clauses)) for f in families),
        clauses=tuple((one_line(c), one_line(sentences.get(c, ""))) for c in clauses),
        rows=tuple(
            (one_line(pair), tuple(tuple(places.get((pair, c), ())) for c in clauses))
            for pair in pairs
        ),
    )


def _headline(header: RunHeader) -> str:
    engines = (f"{name} {known.get('version', '')}" for name, known in header.engines.items())
    commit = f"commit {header.commit}" if header.commit else ""
    return one_line(", ".join(filter(None, [header.time, *engines, header.device, commit])))


def _properties(header: RunHeader) -> tuple[tuple[str, str], ...]:
    facts: dict[str, Any] = {
        "run": header.run_id,
        "time": header.time,
        **{name: _listed(known) for name, known in header.engines.items()},
        "harness": header.harness,
        "commit": header.commit,
        "device": header.device,
        "driver": header.driver,
        "seed": header.seed,
        **{f"settings {name}": _listed(meaning) for name, meaning in header.settings.items()},
        "injected": _listed(header.inject) if header.inject else None,
    }
    return tuple((one_line(name), one_line(str(v))) for name, v in facts.items() if v is not None)


def _listed(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value not in (None, []))
