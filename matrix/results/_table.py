"""The table that a run ends with in the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from matrix.results._cell import Cell, Outcome
from matrix.results._outcomes import LETTERS, unexpected
from matrix.results._record import latest
from matrix.results._text import one_line

__all__ = ["family", "table", "verdict"]

_WIDEST = 400
"""Characters of a detail that are shown; the journal and the report have the rest."""


def family(clause: str) -> str:
    """The family of a clause: `AUX` of `AUX-VALUE`."""
    return clause.partition("-")[0]


def verdict(cell: Cell) -> str:
    """How the cell ended, in words: `fail tap-shift-1`, `skip needs-gpu`, `crash`."""
    return " ".join(filter(None, [cell.outcome, cell.fault or cell.reason_code]))


def table(cells: Sequence[Cell], strict: bool = False, xpass_warn: bool = False) -> str:
    """Pairs by clause families, counts by outcome; then every unexpected cell; then the totals.

    Nothing that an engine said reaches the terminal as a command: control characters are removed
    and each message stays on its line.
    """
    last = list(latest(cells))
    columns = list(dict.fromkeys(family(cell.clause) for cell in last))
    red = [cell for cell in last if unexpected(cell, strict, xpass_warn)]
    parts = [_grid(group, columns) for group in _by_engine(last)]
    parts += ["\n".join(_lines(cell)) for cell in red]
    return "\n\n".join([*parts, _totals(last, len(red))]) + "\n"


def _by_engine(cells: Iterable[Cell]) -> list[list[Cell]]:
    def engine(cell: Cell) -> tuple[str, str, str]:
        return cell.engine, cell.engine_version, cell.dtype

    return [list(group) for _, group in groupby(sorted(cells, key=engine), engine)]


def _grid(cells: list[Cell], columns: list[str]) -> str:
    first = cells[0]
    head = one_line(f"{first.engine}@{first.engine_version}:{first.dtype}")
    rows = [[head, *map(one_line, columns)]]
    for pair in dict.fromkeys(cell.pair for cell in cells):
        mine = [cell for cell in cells if cell.pair == pair]
        counts = (_counts(cell for cell in mine if family(cell.clause) == c) for c in columns)
        rows.append([one_line(pair), *counts])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _counts(cells: Iterable[Cell]) -> str:
    counted = Counter(cell.outcome for cell in cells)
    return " ".join(f"{counted[o]}{LETTERS[o]}" for o in Outcome if counted[o]) or "-"


def _lines(cell: Cell) -> list[str]:
    detail = one_line(cell.detail)
    cut = detail if len(detail) <= _WIDEST else f"{detail[:_WIDEST]}..."
    lines = [": ".join(filter(None, [one_line(cell.key), verdict(cell), cut]))]
    return [*lines, f"  repro: {one_line(cell.repro)}"] if cell.repro else lines


def _totals(cells: list[Cell], red: int) -> str:
    counted = Counter(cell.outcome for cell in cells)
    reasons = Counter(cell.reason_code for cell in cells if cell.reason_code)
    skipped = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    parts = [f"{counted[o]} {o} ({LETTERS[o]})" for o in Outcome if counted[o]]
    total = f"{len(cells)} cells, {red} unexpected: " + ", ".join(parts or ["nothing was run"])
    return f"{total}\nskipped: {skipped}" if skipped else total
