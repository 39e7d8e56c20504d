"""How far an engine's logits are off the reference's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from matrix.contract._bench import Bench, Run

__all__ = ["Off", "logit_tolerance", "logits_off"]


def logit_tolerance(bench: Bench) -> float:
    """How far a right row of logits may be off, relative L2.

    In half precision the twin's own noise, measured when it was built, comes in twice, from the
    engine and from the reference, and again as much behind the last layer.
    """
    return max(bench.tolerance, 4 * bench.twin.noise)


@dataclass
class Off:
    """How far logits are off, over some rows."""

    worst: float = 0.0
    where: int = 0
    rows: int = 0


def logits_off(bench: Bench, runs: Sequence[Run]) -> tuple[Off, Off]:
    """Relative L2 distance of logit rows to the reference: those of prefills, and of verifies."""
    prefill, verify = Off(), Off()
    for run in runs:
        right = bench.states(run.sequence).logits
        accepted = run.accepted
        for part in run.generation.logits:
            off = verify if part.position in accepted else prefill
            got = part.rows.numpy()
            due = min(accepted.get(part.position, len(got)) + 1, len(got))
            due = min(due, len(right) - part.position)
            wanted = right[part.position : part.position + due]
            far = np.linalg.norm(got[:due] - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
            far = np.nan_to_num(far, nan=np.inf)
            off.rows += due
            if due > 0 and far.max() > off.worst:
                off.worst, off.where = float(far.max()), part.position + int(far.argmax())
    return prefill, verify
