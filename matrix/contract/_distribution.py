"""Whether sampled tokens follow a distribution: by rank, since each has a prefix of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALPHA", "Ranked", "misfit", "surplus"]

ALPHA = 1e-6
"""Probability of a false alarm, over all tests of one verdict."""
_TESTS = 3
_FEWEST = 10.0
"""Cells in which fewer samples are expected are pooled: the chi-square tail is wrong there."""


class Ranked:
    """The `count` most likely tokens after a prefix, best first, with their probabilities."""

    def __init__(self, logits: NDArray[np.floating[Any]], count: int, tolerance: float) -> None:
        order = np.argsort(-logits, kind="stable")[:count]
        best = np.exp((logits[order] - logits[order[0]]).astype(np.float64))
        self.tokens = [int(token) for token in order]
        self.probabilities = best / best.sum()
        self._logits, self._lowest = logits, float(logits[order[-1]]) - tolerance

    def rank(self, token: int) -> int | None:
        """Its rank; `None` for a token that isn't among them, by more than rounding."""
        if token in self.tokens:
            return self.tokens.index(token)
        near = 0 <= token < len(self._logits) and self._logits[token] >= self._lowest
        return len(self.tokens) - 1 if near else None


def misfit(ranks: Sequence[int], expected: NDArray[np.float64]) -> tuple[float, float]:
    """Pearson's statistic of the samples' ranks, and the bound that it passes by chance alone.

    Args:
        ranks: each sample's rank.
        expected: how many samples are expected at each rank: the sum of the samples' own
            distributions. Where these differ from one another the statistic is smaller than
            chi-square, so the bound errs on the side of silence.

    Returns:
        The statistic and its quantile at `ALPHA`, after Wilson and Hilferty (1931).
    """
    counts = np.bincount(np.asarray(ranks, dtype=np.int64), minlength=len(expected)).astype(float)
    rare = expected < _FEWEST
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    statistic = float(((counts - expected) ** 2 / expected).sum())
    freedom = max(len(expected) - 1, 1)
    spread = 2 / (9 * freedom)
    z = NormalDist().inv_cdf(1 - ALPHA / _TESTS)
    return statistic, freedom * (1 - spread + z * math.sqrt(spread)) ** 3


def surplus(count: int, probabilities: Sequence[float]) -> bool:
    """Whether an event of these probabilities came too often or too seldom (Hoeffding 1956)."""
    n = len(probabilities)
    mean, seen = sum(probabilities) / n, count / n
    terms = ((seen, mean), (1 - seen, 1 - mean))
    divergence = sum(a * math.log(a / b) for a, b in terms if a > 0)
    return n * divergence > math.log(2 * _TESTS / ALPHA)
