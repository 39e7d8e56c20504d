"""What a clause is, and the registry that the `@clause` decorator fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from matrix.faults import GIVES, Fault, Phase, Severity, severity_of, worst_first

if TYPE_CHECKING:
    from matrix.contract._bench import Bench

__all__ = ["CLAUSES", "STARTS", "Clause", "Finding", "Skip", "Verdict", "clause"]


@dataclass(frozen=True)
class Finding:
    """One fault that a clause found; the table in `matrix.faults` has its severity."""

    label: Fault
    evidence: str
    phase: Phase = Phase.ALL
    example: Any = None
    severity: Severity | None = None
    """Where this one is less than the table says."""


@dataclass(frozen=True)
class Verdict:
    """What a clause says: no findings means that it holds."""

    findings: tuple[Finding, ...] = ()
    detail: str = ""
    expected: Any = None
    actual: Any = None
    tolerance: float | None = None
    margin: float | None = None
    """How far below the tolerance the worst value stayed: tolerance / worst."""
    metrics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Skip:
    """The clause can't be judged here; `code` is one of the reason codes."""

    code: str
    reason: str


@dataclass(frozen=True)
class Clause:
    """One thing that must hold."""

    id: str
    version: int
    tier: str
    """`cpu`: tiny models on a real engine; `gpu`: real weights."""
    sentence: str
    needs: tuple[str, ...]
    """Capabilities (`engines.CAPABILITIES`) without which it is `not-applicable`."""
    settings: tuple[str, ...]
    """The starts that it needs; it is judged on the last of them."""
    catches: tuple[str, ...]
    """Public reports that it would have caught."""
    check: Callable[[Bench], Verdict | Skip]

    @property
    def gives(self) -> Mapping[Fault, Severity]:
        """The labels it can give, with their severities."""
        return GIVES[self.id]

    @property
    def severity(self) -> Severity:
        """Its worst fault's."""
        return min(self.gives.values(), key=worst_first)

    def severity_of(self, fault: Fault) -> Severity:
        """The severity of one of its faults."""
        return severity_of(self.id, fault)


CLAUSES: Final[dict[str, Clause]] = {}
"""Every clause by id, in the order in which they are judged."""

STARTS: Final = {"plain": "START-PLAIN", "main": "START-LOAD", "pp2": "START-PP", "tp2": "AUX-TP"}
"""Settings -> the clause that says what became of that start, a refusal included."""


def clause(
    id: str,
    sentence: str,
    *,
    needs: tuple[str, ...] = (),
    catches: tuple[str, ...] = (),
    settings: tuple[str, ...] = ("main",),
    tier: str = "cpu",
    version: int = 1,
) -> Callable[[Callable[[Bench], Verdict | Skip]], Callable[[Bench], Verdict | Skip]]:
    """Register the decorated function as the clause `id` (`TAP-ORDER` is `tap_order`)."""

    def register(
        check: Callable[[Bench], Verdict | Skip],
    ) -> Callable[[Bench], Verdict | Skip]:
        assert check.__name__ == id.lower().replace("-", "_"), f"{id}: the id is the address"
        CLAUSES[id] = Clause(id, version, tier, sentence, needs, settings, catches, check)
        return check

    return register
