"""What an outcome means for the run: its letter, whether it is unexpected, the exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from matrix.results._cell import Cell, Outcome

__all__ = ["LETTERS", "LOST", "RED", "exit_code", "unexpected"]

LOST: Final = frozenset({Outcome.CRASH, Outcome.TIMEOUT, Outcome.OOM})
"""The worker was lost; such a cell has no fault."""

RED: Final = frozenset({Outcome.FAIL, Outcome.XPASS, Outcome.ERROR}) | LOST
"""Unexpected whatever the flags, `xpass` but for `--xpass warn`."""

LETTERS: Final[Mapping[Outcome, str]] = MappingProxyType(
    {
        Outcome.PASS: "P",
        Outcome.FAIL: "F",
        Outcome.XFAIL: "x",
        Outcome.XPASS: "X",
        Outcome.WARN: "W",
        Outcome.SKIP: "s",
        Outcome.ERROR: "E",
        Outcome.CRASH: "C",
        Outcome.TIMEOUT: "T",
        Outcome.OOM: "O",
    }
)
"""Outcome -> the one letter that stands for it in tables and grids."""


def unexpected(cell: Cell, strict: bool = False, xpass_warn: bool = False) -> bool:
    """Whether the cell is red. `strict` makes `warn` red; `xpass_warn` makes an `xpass` a `warn`."""
    if cell.outcome is Outcome.WARN or (cell.outcome is Outcome.XPASS and xpass_warn):
        return strict
    return cell.outcome in RED


def exit_code(cells: Sequence[Cell], strict: bool = False, xpass_warn: bool = False) -> int:
    """0: as expected; 1: a cell is unexpected; 3: every cell was skipped, or there is none."""
    if any(unexpected(cell, strict, xpass_warn) for cell in cells):
        return 1
    return 3 if all(cell.outcome is Outcome.SKIP for cell in cells) else 0
