"""What a benchmark reports, and how it is measured."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RATIO", "ROUNDS", "Figure", "seconds"]

ROUNDS: Final = 5
"""Every figure is the median of so many measurements."""
RATIO: Final = "ratio"
"""The one unit that gates: a ratio of two times holds on a fast machine and on a slow one."""


@dataclass(frozen=True)
class Figure:
    """One measured value. It should be at most `target`; `None`: it is only shown."""

    name: str
    unit: str
    value: float
    target: float | None = None

    @property
    def met(self) -> bool:
        """Whether the target is met, or there is none."""
        return self.target is None or self.value <= self.target

    @property
    def red(self) -> bool:
        """Whether this figure fails the benchmark."""
        return self.unit == RATIO and not self.met


def seconds(subject: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Median wall seconds of a call."""
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        subject()
        took.append(time.perf_counter() - began)
    return statistics.median(took)
