"""A known failure: engine, version range, pair or architecture, clause, reason and link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matrix.faults import Fault

__all__ = ["Expectation"]


@dataclass(frozen=True)
class Expectation:
    """One `[[expectation]]`. A cell is `xfail` only if every fault found has a row with its label."""

    engine: str
    """Engine name."""
    version: str
    """PEP 440 specifier; pre-releases match."""
    clause: str
    """Glob over clause ids."""
    fault: Fault
    """The label that is expected."""
    reason: str
    """Why it fails."""
    link: str
    """Where it is reported or can be read; http or https."""
    pair: str | None = None
    """Glob over row keys; exactly one of `pair` and `arch` is given."""
    arch: str | None = None
    """Glob over target architectures."""
    outcome: str = "fail"
    """The outcome that is expected: `fail` or `warn`, or a lost worker's."""
    examples: tuple[Any, ...] = ()
    """Pinned inputs: run first, not shrunk; the row is `xpass` when one no longer fails."""
    file: str = ""
    """Where the row stands."""
    position: int = 0
    """Its place there, from 1."""

    @property
    def name(self) -> str:
        """How a message names the row: file and position."""
        return f"{self.file}#{self.position}"
