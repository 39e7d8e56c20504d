"""What did not run, and why: engines, starts, and ways of serving a pair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from matrix.report._gather import Gathered
from matrix.report._words import short
from matrix.results import Cell, Outcome, Reason

__all__ = ["Absent", "absent"]

_CHOSEN: Final = frozenset({Reason.NOT_APPLICABLE, Reason.FILTERED})
"""Reasons that are nobody's lack: an engine hasn't the thing, or the user left it out."""


@dataclass(frozen=True)
class Absent:
    """One reason for which something was not judged."""

    what: str
    """The engine, or the engine and a way of serving."""
    reason: str
    """`no journal`, `not run`, or the code of a skip."""
    why: str
    pairs: tuple[str, ...]
    cells: int
    """Cells that it left without a verdict; 0 where it has none at all."""
    chosen: bool = False
    """It was meant to be left out."""


def absent(gathered: Gathered) -> list[Absent]:
    """Everything that did not run; what lacks something first, what was chosen last."""
    rows = [*_engines(gathered), *_skips(gathered.cells.values()), *_variants(gathered)]
    return sorted(rows, key=lambda row: row.chosen)


def _engines(gathered: Gathered) -> Iterable[Absent]:
    ran = {cell.engine for cell in gathered.cells.values()}
    if not ran:
        return
    for engine in gathered.known.engines:
        if engine not in ran:
            yield Absent(engine, "no journal", "no journal of this engine was given", (), 0)


def _skips(cells: Iterable[Cell]) -> Iterable[Absent]:
    groups: dict[tuple[str, Reason | None, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.outcome is Outcome.SKIP:
            engine = f"{cell.engine} {cell.engine_version}"
            groups[engine, cell.reason_code, cell.detail].append(cell)
    for (engine, code, detail), skipped in groups.items():
        yield Absent(
            short(engine),
            code or "no reason",
            short(detail),
            tuple(dict.fromkeys(short(cell.pair) for cell in skipped)),
            len(skipped),
            chosen=code in _CHOSEN,
        )


def _variants(gathered: Gathered) -> Iterable[Absent]:
    ways: dict[str, list[str]] = defaultdict(list)
    for pair in dict.fromkeys(cell.pair for cell in gathered.cells.values()):
        for way in gathered.known.gaps.get(pair, ()):
            ways[way].append(pair)
    for way, pairs in ways.items():
        why = "it is served so, and no start of ours covers that"
        yield Absent(short(way), "not run", why, tuple(map(short, pairs)), 0)
