"""From what a clause said to the cell in the journal, expectations applied."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from matrix import cache
from matrix._plan import Plan
from matrix.contract import Clause, Finding, Verdict
from matrix.engines import Identity
from matrix.faults import Severity, worst_first
from matrix.registry import Expectation, Pair
from matrix.results import Cell, Found, Outcome, Reason, StartLine, apply

__all__ = ["NOWHERE", "At", "CellWriter"]


class At(NamedTuple):
    """When a clause began, and where in the worker's log."""

    since: float
    """Seconds of `time.monotonic`."""
    log: Path | None
    log_line: int


def _portable(text: str) -> str:
    """What an engine said, without this machine's own folder: two machines' runs are compared."""
    return text.replace(str(cache.root()), "<cache>")


NOWHERE = At(0.0, None, 0)
"""For a cell that no worker was asked for."""


@dataclass
class CellWriter:
    """The cells of one row, written the moment they are known."""

    plan: Plan
    pair: Pair
    run_id: str
    identity: Identity
    write: Callable[[Cell | StartLine], None]
    cells: list[Cell] = field(default_factory=list)

    def done(self, clause: Clause) -> bool:
        """Whether the clause has its cell."""
        return any(cell.clause == clause.id for cell in self.cells)

    def skip(self, clauses: Sequence[Clause], reason: Reason, why: str) -> None:
        """Skip those of the clauses that have no cell yet."""
        for clause in clauses:
            if not self.done(clause):
                self.put(clause, Outcome.SKIP, reason, why)

    def started(
        self, settings: str, seconds: float, outcome: Outcome, rss_mb: float, twin: str | None
    ) -> None:
        """Write the line of one engine start."""
        self.write(
            StartLine(
                run_id=self.run_id,
                engine=self.plan.engine,
                engine_version=self.identity.version,
                pair=self.pair.key,
                settings=settings,
                seconds=seconds,
                outcome=outcome,
                rss_mb=rss_mb,
                twin=twin,
            )
        )

    def judged(
        self, clause: Clause, verdict: Verdict, tried: Mapping[str, Sequence[Finding]], at: At
    ) -> None:
        """Write a verdict; `tried` says what each input of its search gave."""
        if stray := [f.label for f in verdict.findings if f.label not in clause.gives]:
            text = f"{clause.id} gave {stray[0]}, which matrix.faults.GIVES doesn't list for it"
            self.put(clause, Outcome.ERROR, None, text, at)
            return
        faults = sorted(
            (
                Found(
                    f.label,
                    f.severity or clause.severity_of(f.label),
                    f.phase,
                    f.example,
                    _portable(f.evidence),
                )
                for f in verdict.findings
            ),
            key=lambda found: worst_first(found.severity),
        )
        red = any(found.severity is not Severity.GUARD for found in faults)
        self.put(
            clause,
            Outcome.FAIL if red else Outcome.WARN if faults else Outcome.PASS,
            None,
            verdict.detail or (faults[0].evidence if faults else ""),
            at,
            tried,
            faults=faults,
            fault=faults[0].label if faults else None,
            expected=verdict.expected,
            actual=verdict.actual,
            tolerance=verdict.tolerance,
            margin=verdict.margin,
            example=faults[0].example if faults else self.plan.example,
            metrics=dict(verdict.metrics),
        )

    def put(
        self,
        clause: Clause,
        outcome: Outcome,
        reason: Reason | None = None,
        detail: str = "",
        at: At = NOWHERE,
        tried: Mapping[str, Sequence[Finding]] | None = None,
        **values: Any,
    ) -> None:
        """Write one cell, as the expectations see it."""
        cell = msgspec.structs.replace(
            self._blank(clause, outcome),
            reason_code=reason,
            detail=_portable(detail),
            seconds=round(time.monotonic() - at.since, 4) if at.since else 0.0,
            log=str(at.log.relative_to(self.plan.out)) if at.log else None,
            log_line=at.log_line or None,
            repro=self.plan.repro(self.pair, clause.id, values.get("example", self.plan.example)),
            **values,
        )
        gave = {
            key: frozenset(finding.label for finding in found)
            for key, found in (tried or {}).items()
        }
        cell = apply(cell, self.plan.expectations, gave)
        self.cells.append(cell)
        self.write(cell)

    def expected(self, clause: Clause) -> list[Expectation]:
        """The rows that speak of this clause here: a failure with their label would be `xfail`."""
        return [row for row in self.plan.expectations if self._covers(row, clause)]

    def _covers(self, row: Expectation, clause: Clause) -> bool:
        trial = msgspec.structs.replace(
            self._blank(clause, Outcome(row.outcome)),
            faults=[Found(row.fault, Severity.WRONG)],
            fault=row.fault,
        )
        return apply(trial, [row], {}).outcome is Outcome.XFAIL

    def _blank(self, clause: Clause, outcome: Outcome) -> Cell:
        return Cell(
            run_id=self.run_id,
            time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            engine=self.plan.engine,
            engine_version=self.identity.version,
            settings=clause.settings[-1],
            dtype=self.plan.dtype,
            pair=self.pair.key,
            pair_kind=self.pair.kind,
            target=self.pair.target,
            draft=self.pair.speculative_model,
            arch=self.pair.arch,
            tier=clause.tier,
            clause=clause.id,
            clause_version=clause.version,
            outcome=outcome,
            standins=list(self.identity.standins),
        )
