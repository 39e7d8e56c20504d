"""The whole report as plain data; the template only lays it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from matrix.report._absent import Absent, absent
from matrix.report._changes import ChangeList, change_lists
from matrix.report._entry import Entry, Text, entries_of, text_of
from matrix.report._faults import FaultRow, fault_rows
from matrix.report._gather import Gathered
from matrix.report._sections import (
    PreflightView,
    ScanView,
    ScoreView,
    preflight_view,
    scan_view,
    score_view,
)
from matrix.report._words import short
from matrix.results import LETTERS, Outcome, RunHeader, family

__all__ = ["Grid", "Page", "page_of"]

_ORDER: Final = (
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
)
"""What a reader wants to see first."""


@dataclass(frozen=True)
class Grid:
    """One engine version at one dtype: pairs by clauses."""

    title: str
    red: int
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
    """For each engine version one line: on what, when, at which commits."""
    runs: tuple[tuple[tuple[str, str], ...], ...]
    """For each run its properties: name and value."""
    injected: tuple[str, ...]
    changes: tuple[ChangeList, ...] | None
    """`None` when no baseline was given."""
    reasons: tuple[str, ...]
    """Why the run and the baseline can't be compared in full."""
    unmatched: tuple[Text, ...]
    problems: tuple[str, ...]
    absent: tuple[Absent, ...]
    scores: tuple[ScoreView, ...]
    preflights: tuple[PreflightView, ...]
    scans: tuple[ScanView, ...]
    faults: tuple[FaultRow, ...]
    grids: tuple[Grid, ...]
    entries: Mapping[str, Entry]
    sentences: Mapping[str, str]
    """Of the clauses that are shown."""

    @property
    def broken(self) -> int:
        """Cells that are worse than in the baseline."""
        return sum(found.total for found in self.changes or () if found.name == "broken")


def page_of(gathered: Gathered, beside: Path) -> Page:
    """The page of what was gathered; `beside` is the folder that links are relative to."""
    entries = entries_of(gathered, beside)
    counted = Counter(cell.outcome for cell in gathered.cells.values())
    changes = change_lists(gathered, entries)
    record, known, inputs = gathered.record, gathered.known, gathered.inputs
    clauses = {entry.clause for entry in entries.values()}
    sentences = {short(c): short(said) for c, said in known.sentences.items()}
    return Page(
        red=sum(entry.red for entry in entries.values()),
        total=len(entries),
        counts=tuple((o.value, LETTERS[o], counted[o]) for o in _ORDER if counted[o]),
        headlines=tuple(_headlines(record.headers)),
        runs=tuple(map(_properties, record.headers)),
        injected=tuple(
            dict.fromkeys(short(h.inject.get("path", "?")) for h in record.headers if h.inject)
        ),
        changes=None if changes is None else tuple(changes),
        reasons=tuple(map(short, gathered.changes.reasons)) if gathered.changes else (),
        unmatched=tuple(text_of(f"{r.name}: {r.reason} ({r.link})") for r in gathered.unmatched),
        problems=tuple(map(short, record.problems)),
        absent=tuple(absent(gathered)),
        scores=tuple(map(score_view, inputs.scores)),
        preflights=tuple(map(preflight_view, inputs.preflights)),
        scans=tuple(scan_view(*found) for found in inputs.scans),
        faults=tuple(fault_rows(entries.values())),
        grids=tuple(_grids(entries.values(), sentences)),
        entries=entries,
        sentences={clause: said for clause, said in sentences.items() if clause in clauses},
    )


def _grids(entries: Iterable[Entry], sentences: Mapping[str, str]) -> Iterable[Grid]:
    def engine(entry: Entry) -> str:
        return entry.engine

    groups = groupby(sorted(entries, key=engine), engine)
    grids = (_grid(title, list(group), sentences) for title, group in groups)
    return sorted(grids, key=lambda grid: grid.red == 0)


def _grid(title: str, entries: Sequence[Entry], sentences: Mapping[str, str]) -> Grid:
    # Clauses of one family side by side, families as they first appear.
    families = list(dict.fromkeys(family(entry.clause) for entry in entries))
    known = dict.fromkeys(entry.clause for entry in entries)
    clauses = sorted(known, key=lambda clause: families.index(family(clause)))
    places: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        places.setdefault((entry.pair, entry.clause), []).append(entry)
    pairs = dict.fromkeys(entry.pair for entry in entries)
    return Grid(
        title=title,
        red=sum(entry.red for entry in entries),
        families=tuple((name, sum(family(c) == name for c in clauses)) for name in families),
        clauses=tuple((clause, sentences.get(clause, "")) for clause in clauses),
        rows=tuple(
            (pair, tuple(tuple(places.get((pair, c), ())) for c in clauses)) for pair in pairs
        ),
    )


def _headlines(headers: Sequence[RunHeader]) -> Iterable[str]:
    """One line for all runs of one engine version on one device."""
    groups: dict[tuple[str, str], list[RunHeader]] = {}
    for header in headers:
        named = (f"{name} {known.get('version', '')}" for name, known in header.engines.items())
        groups.setdefault((", ".join(named), header.device), []).append(header)
    for (engines, device), runs in groups.items():
        minutes = sorted({run.time[:16].replace("T", " ") for run in runs})
        commits = dict.fromkeys(run.commit[:10] for run in runs if run.commit)
        yield short(
            f"{engines} on {device}, {' to '.join(dict.fromkeys([minutes[0], minutes[-1]]))}"
            + (f", {len(runs)} runs" if len(runs) > 1 else "")
            + (f", commit {', '.join(list(commits)[-3:])}" if commits else "")
        )


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
    return tuple((short(name), short(str(v))) for name, v in facts.items() if v is not None)


def _listed(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value not in (None, []))
