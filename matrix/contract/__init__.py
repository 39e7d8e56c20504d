"""What must hold: the clauses, and naming the fault when one doesn't.

Clauses know the engine Protocol, never an engine. They are judged in this order: the start, the
hook, the planes, the output, the canary, and last the layer ids, which reconfigure the engine.
"""

from __future__ import annotations

from matrix.contract import canary, hook, output, start, states, tap  # noqa: F401 - they fill CLAUSES
from matrix.contract._bench import TOLERANCE, Bench, Examples, Oracle, Run
from matrix.contract._clause import CLAUSES, STARTS, Clause, Finding, Skip, Verdict
from matrix.contract._inputs import example_problem
from matrix.contract._planes import death

__all__ = [
    "CLAUSES",
    "STARTS",
    "TOLERANCE",
    "Bench",
    "Clause",
    "Examples",
    "Finding",
    "Oracle",
    "Run",
    "Skip",
    "Verdict",
    "death",
    "example_problem",
]

_FAMILIES = ("START", "HOOK", "AUX", "OUTPUT", "CANARY", "TAP")

for _clause in sorted(
    CLAUSES.values(), key=lambda clause: _FAMILIES.index(clause.id.partition("-")[0])
):
    CLAUSES[_clause.id] = CLAUSES.pop(_clause.id)
