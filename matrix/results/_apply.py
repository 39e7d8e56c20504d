"""Expectations applied: which red cells are known, and which known failures are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion

from matrix.faults import Fault, Severity
from matrix.results._cell import Cell, Found, Outcome
from matrix.results._json import canonical
from matrix.results._outcomes import LOST
from matrix.results._text import one_line

if TYPE_CHECKING:
    from matrix.registry import Expectation

__all__ = ["apply", "unmatched"]

_JUDGED: Final = frozenset({Outcome.PASS, Outcome.FAIL, Outcome.WARN}) | LOST
_UNSEEN: Final = frozenset({Outcome.SKIP, Outcome.ERROR}) | LOST


def apply(cell: Cell, rows: Sequence[Expectation], pinned: Mapping[str, frozenset[Fault]]) -> Cell:
    """The cell as the expectations see it; `cell` itself is left as it is.

    `xfail` when every fault found has a row with its label (a lost worker: a row with that
    outcome). `xpass` when a row no longer holds: one of its pinned examples, run in this cell,
    gave other labels, or the row pins none and the cell passed. An unexpected failure stays one,
    whatever rows no longer hold beside it. A cell that is skipped or in `error` stays as it is.

    Args:
        cell: as the clause judged it.
        rows: every expectation of the run.
        pinned: `canonical(example)` -> the labels that this example gave, for each pinned example
            that was run in this cell.
    """
    if cell.outcome not in _JUDGED:
        return cell
    matching = [row for row in rows if _covers(row, cell)]
    known = _known(cell, matching)
    gone = [why for row in matching if (why := _gone(row, cell, pinned))]
    holding = cell.outcome in (Outcome.PASS, Outcome.WARN)
    if gone and (known or holding):
        names, sentences = zip(*gone, strict=True)
        detail = "; ".join(filter(None, [*sentences, cell.detail]))
        return _copy(cell, Outcome.XPASS, detail, names)
    if known:
        return _copy(cell, Outcome.XFAIL, cell.detail, [_label(row) for row in known])
    return cell


def unmatched(rows: Sequence[Expectation], cells: Sequence[Cell]) -> list[Expectation]:
    """The rows that no cell needed, among those whose engine, version, pair and clause were run.

    A row that some `xpass` cell already names is not listed again. A cell that is skipped, in
    `error` or whose worker was lost says nothing about a row.

    Args:
        rows: every expectation of the run.
        cells: as `apply` returned them.
    """
    return [
        row
        for row in rows
        if (scope := [c for c in cells if c.outcome not in _UNSEEN and _covers(row, c)])
        and not any(_needed(row, cell) for cell in scope)
    ]


def _covers(row: Expectation, cell: Cell) -> bool:
    return (
        row.engine == cell.engine
        and fnmatchcase(cell.clause, row.clause)
        and (row.pair is None or fnmatchcase(cell.pair, row.pair))
        and (row.arch is None or fnmatchcase(cell.arch, row.arch))
        and _in_range(row.version, cell.engine_version)
    )


def _in_range(specifier: str, version: str) -> bool:
    """Pre-releases match. A version that is not PEP 440 lies only in the range of all versions."""
    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except InvalidSpecifier:
        return False
    except InvalidVersion:
        return not specifier.strip()


def _known(cell: Cell, rows: Sequence[Expectation]) -> list[Expectation]:
    """The rows that explain the cell; none when any of its faults has no row."""
    if cell.outcome in LOST:
        return [row for row in rows if row.outcome == cell.outcome]
    if not all(any(_explains(row, found, cell) for row in rows) for found in cell.faults):
        return []
    return [row for row in rows if any(_explains(row, found, cell) for found in cell.faults)]


def _explains(row: Expectation, found: Found, cell: Cell) -> bool:
    # A missing guard beside a wrong state is part of a `fail`, but its row says `warn`.
    alone = Outcome.WARN if found.severity is Severity.GUARD else Outcome.FAIL
    return row.fault == found.label and row.outcome in (cell.outcome, alone)


def _gone(
    row: Expectation, cell: Cell, pinned: Mapping[str, frozenset[Fault]]
) -> tuple[str, str] | None:
    """The row's label and a sentence when the row no longer holds, else `None`."""
    if not row.examples and cell.outcome is Outcome.PASS:
        why = "the cell passes"
        return _label(row), f"expectation {row.name} no longer holds ({why}); delete the row"
    for example in row.examples:
        labels = pinned.get(key := canonical(example))
        if labels is None or row.fault in labels or row.outcome == cell.outcome in LOST:
            continue
        gave = ", ".join(sorted(labels)) or "no fault"
        why = f"{key} gives {gave}, not {row.fault}"
        return _label(row), f"expectation {row.name} no longer holds ({why}); delete the row"
    return None


def _needed(row: Expectation, cell: Cell) -> bool:
    named = _label(row) in (cell.expectation or "").splitlines()
    return named or any(_explains(row, found, cell) for found in cell.faults)


def _label(row: Expectation) -> str:
    return one_line(f"{row.name}: {row.reason} ({row.link})")


def _copy(cell: Cell, outcome: Outcome, detail: str, labels: Sequence[str]) -> Cell:
    return msgspec.structs.replace(
        cell, outcome=outcome, detail=detail, expectation="\n".join(labels)
    )
