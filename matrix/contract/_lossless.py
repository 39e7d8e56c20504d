"""Whether emitted tokens are the target's own: teacher-forced over the whole output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from matrix.contract._bench import Bench, Run
from matrix.contract._clause import Finding
from matrix.faults import Fault

__all__ = ["TAU", "differing", "gaps", "plain_gap", "tau"]

TAU = 3.0
"""A token may lie this many times the largest gap of a plain run below the reference's best."""


def gaps(bench: Bench, run: Run) -> list[float]:
    """Per emitted token: how far its logit lies below the best, given the emitted prefix."""
    tokens = run.generation.tokens
    if not tokens:
        return []
    start = len(run.request.prompt) - 1
    rows = bench.states(run.sequence).logits[start : start + len(tokens)]
    spread = float(rows.std(axis=1).max())
    bench.memo["spread"] = max(spread, bench.memo.get("spread", 0.0))
    chosen = rows[np.arange(len(tokens)), tokens]
    return [float(gap) for gap in rows.max(axis=1) - chosen]


def _resolution(bench: Bench) -> float:
    """What rounding alone may turn over: the tolerance of a plane, on a logit of size one.

    In half precision the twin's own noise (relative to float32, measured when it was built) says
    how far a logit is off: that much of the logits' spread. Engine and reference are both off, and
    a gap lies between two logits: twice the noise, and four standard deviations of it.
    """
    return max(bench.tolerance, 8 * bench.twin.noise * float(bench.memo.get("spread", 0.0)))


def plain_gap(bench: Bench, worst: float) -> float:
    """Keep the plain run's largest gap for `tau`; returns what a plain run itself may show.

    A plain run that is wrong itself is no measure of rounding: its gap is not kept.
    """
    tolerance = _resolution(bench)
    bench.memo["plain_gap"] = worst if worst <= tolerance else 0.0
    return tolerance


def tau(bench: Bench) -> float:
    """The largest gap that a lossless output may show: 3 x a plain run's, at least rounding."""
    return max(TAU * float(bench.memo.get("plain_gap", 0.0)), _resolution(bench))


def differing(bench: Bench, runs: Sequence[Run], what: str) -> tuple[list[Finding], float]:
    """Findings for outputs that are not the target's own, and the largest gap seen."""
    found, worst = list[Finding](), 0.0
    for run in runs:
        past = [token for token in run.generation.tokens if token >= bench.twin.vocab_size]
        if past:
            text = f"{what}: token {past[0]} lies past the vocabulary of {bench.twin.vocab_size}"
            found.append(
                Finding(Fault.OUTPUT_DIFFERS, text, example={"prompt": run.request.prompt})
            )
            continue
        seen = gaps(bench, run)
        worst = max([worst, *seen])
        at = next((i for i, gap in enumerate(seen) if gap > tau(bench)), None)
        if at is not None:
            found.append(
                Finding(
                    Fault.OUTPUT_DIFFERS,
                    f"{what}: token {at} ({run.generation.tokens[at]}) lies {seen[at]:.3g} below "
                    f"the reference's best logit, tolerance {tau(bench):.3g}",
                    example={"prompt": run.request.prompt},
                )
            )
    return found[:1], worst
