"""What planted faults showed of the matrix: the score of `selfcheck`, as its `--json` has it."""

from __future__ import annotations

import msgspec

__all__ = ["Score", "Stray"]


class Stray(msgspec.Struct, frozen=True):
    """One clause that didn't say of a planted fault what the committed table says."""

    fault: str
    """The planted file's name."""
    clause: str
    expected: str | None
    """Label or outcome by the table; `None`: it should have stayed green."""
    actual: str | None
    """Label or outcome as judged; `None`: it stayed green."""


class Score(msgspec.Struct, kw_only=True):
    """The score of one engine. Faults are named by their files."""

    engine: str
    engine_version: str
    planted: list[str]
    """Every fault that was planted."""
    harmless: list[str]
    """Every harmless change that was made."""
    caught: list[str]
    """Faults that turned red every clause that the table states."""
    named: list[str]
    """Those of them that every such clause called by its name."""
    missed: list[Stray]
    """Clauses of the table that stayed green."""
    misnamed: list[Stray]
    """Clauses of the table that gave another name; `unknown` is no name, so it is not here."""
    false_alarms: list[Stray]
    """Clauses outside the table that turned red."""
    never_red: list[str]
    """Clauses that were judged and that no planted fault turned red."""

    @property
    def failed(self) -> bool:
        """Whether a fault was missed or misnamed, or something turned red without a cause."""
        return bool(self.missed or self.misnamed or self.false_alarms)
