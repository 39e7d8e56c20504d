"""A clause of preflight: an id, a sentence, a function, and what it can say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from matrix.faults import GIVES, Fault, Severity, worst_first
from matrix.preflight._subject import Subject

__all__ = [
    "CLAUSES",
    "Clause",
    "Judgement",
    "Said",
    "clause",
    "cut",
    "fault",
    "ok",
    "shown",
    "skip",
]

Outcome = Literal["pass", "fail", "warn", "skip"]


@dataclass(frozen=True)
class Said:
    """What a clause found; the outcome follows from the label's severity."""

    label: Fault | None
    expected: Any
    actual: Any
    message: str
    skipped: bool = False


@dataclass(frozen=True)
class Judgement:
    """A clause's answer on one pair."""

    clause: str
    outcome: Outcome
    fault: Fault | None
    expected: Any
    actual: Any
    message: str


@dataclass(frozen=True)
class Clause:
    """One thing that must hold between two configs."""

    id: str
    sentence: str
    """What must hold."""
    check: Callable[[Subject], Said]
    catches: tuple[str, ...] = ()
    """Public reports that it would have caught."""
    version: int = 1
    """Raised by every change in what it judges."""
    tier: str = "config"
    """Configs are all that it needs."""
    needs: tuple[str, ...] = ()
    """No capability of an engine."""

    @property
    def gives(self) -> Mapping[Fault, Severity]:
        """The labels that it can give, with their severities."""
        return GIVES[self.id]

    @property
    def severity(self) -> Severity:
        """The worst of them."""
        return min(self.gives.values(), key=worst_first)

    def judge(self, subject: Subject) -> Judgement:
        """`fail` for what dies or is wrong, `warn` for a missing guard or a doubt."""
        said = self.check(subject)
        outcome: Outcome = "skip" if said.skipped else "pass"
        if said.label is not None:
            doubt = self.gives[said.label] is Severity.GUARD
            outcome = "warn" if doubt else "fail"
        message = cut(said.message, 1000)
        return Judgement(self.id, outcome, said.label, said.expected, said.actual, message)


CLAUSES: Final[dict[str, Clause]] = {}
"""Every clause by its id, in the order in which they are judged."""


def clause(
    id: str, sentence: str, catches: tuple[str, ...] = ()
) -> Callable[[Callable[[Subject], Said]], Callable[[Subject], Said]]:
    """Add a function to `CLAUSES`."""

    def add(check: Callable[[Subject], Said]) -> Callable[[Subject], Said]:
        CLAUSES[id] = Clause(id, sentence, check, catches)
        return check

    return add


def ok(actual: Any, message: str) -> Said:
    """What was expected is what is there."""
    return Said(None, actual, actual, message)


def fault(label: Fault, expected: Any, actual: Any, message: str) -> Said:
    """Something else is there."""
    return Said(label, expected, actual, message)


def skip(message: str) -> Said:
    """The clause has nothing to judge here; the message says why."""
    return Said(None, None, None, message, skipped=True)


def shown(value: Any) -> str:
    """A value in one short line."""
    return cut(repr(value), 160)


def cut(text: str, most: int = 300) -> str:
    """A text without its end, where that is long."""
    return text if len(text) <= most else f"{text[: most - 30]}... ({len(text)} characters)"
