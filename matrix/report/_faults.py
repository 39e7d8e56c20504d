"""The fault view: one fault over many cells is one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from matrix.report._entry import Entry, Text
from matrix.report._words import short
from matrix.results import LETTERS, Outcome

__all__ = ["FaultRow", "fault_rows"]

_BLAMELESS: Final = frozenset({"pass", "skip"})


@dataclass(frozen=True)
class FaultRow:
    """One fault, and where it shows. Cells without a label stand under their outcome."""

    label: str
    red: bool
    """Unexpected; the same fault where rows expect it is a row of its own."""
    severity: str
    outcomes: tuple[tuple[str, str, int], ...]
    """Outcome, letter, number of cells."""
    engines: tuple[str, ...]
    pairs: tuple[str, ...]
    clauses: tuple[str, ...]
    evidence: str
    """Of its first cell."""
    cells: tuple[Entry, ...]
    links: tuple[Text, ...]
    """The public reports that its cells' expectations name."""


def fault_rows(entries: Iterable[Entry]) -> list[FaultRow]:
    """Unexpected faults first, then those on the most cells."""
    groups: dict[tuple[bool, str], list[Entry]] = {}
    for entry in entries:
        if entry.outcome not in _BLAMELESS:
            for label in dict.fromkeys(f.label for f in entry.faults) or {entry.outcome: None}:
                groups.setdefault((not entry.red, label), []).append(entry)
    rows = [_row(label, not calm, cells) for (calm, label), cells in groups.items()]
    return sorted(rows, key=lambda row: (not row.red, -len(row.cells), row.label))


def _row(label: str, red: bool, cells: list[Entry]) -> FaultRow:
    found = [fault for cell in cells for fault in cell.faults if fault.label == label]
    counted: Mapping[str, int] = Counter(cell.outcome for cell in cells)
    said = next((fault.evidence for fault in found if fault.evidence), cells[0].detail)
    return FaultRow(
        label=label,
        red=red,
        severity=found[0].severity if found else "",
        outcomes=tuple((o.value, LETTERS[o], counted[o]) for o in Outcome if counted.get(o)),
        engines=tuple(dict.fromkeys(cell.engine for cell in cells)),
        pairs=tuple(dict.fromkeys(cell.pair for cell in cells)),
        clauses=tuple(dict.fromkeys(cell.clause for cell in cells)),
        evidence=short(said),
        cells=tuple(cells),
        links=tuple(
            dict.fromkeys(_named(text.link) for c in cells for text in c.known if text.link)
        ),
    )


def _named(link: str) -> Text:
    """An address without what every address has."""
    return Text(link.partition("://")[2].removeprefix("github.com/"), link)
