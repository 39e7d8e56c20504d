"""What the reference process answers with; numpy's side of it is `States`."""

from __future__ import annotations

import msgspec

from matrix.engines._messages import Array

__all__ = ["GreedyRun", "StateArrays"]


class StateArrays(msgspec.Struct, frozen=True, kw_only=True):
    """`States` as it crosses the pipe and lies in the cache: the same fields, as bytes."""

    tokens: list[int]
    layers: Array
    logits: Array
    embedding: Array
    normed: Array
    attention: Array | None = None
    mlp: Array | None = None
    final_normed: Array | None = None
    next_normed: Array | None = None


class GreedyRun(msgspec.Struct, frozen=True):
    """A greedy continuation of a prompt."""

    tokens: list[int]
    """What follows the prompt; a stop token, when one was met, is the last."""
    gaps: list[float]
    """Per token, its logit minus the runner-up's: near 0, another sound engine may differ here."""
