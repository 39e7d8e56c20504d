"""What is right: the target's layer states on one token sequence, as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matrix.reference._arrays import StateArrays

__all__ = ["States"]

FloatArray = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class States:
    """Layer states of one sequence: T tokens, N layers, width H, vocabulary V; float32.

    `layers[i]` is the raw output of decoder layer i, taken by a forward hook (Hugging Face
    `hidden_states[i + 1]`, but raw for the last layer too). The detail arrays are `None` unless
    asked for; they are what a wrong capture may have delivered instead.
    """

    tokens: tuple[int, ...]
    layers: FloatArray
    """`[N, T, H]`"""
    logits: FloatArray
    """`[T, V]`; row t predicts token t + 1"""
    embedding: FloatArray
    """`[T, H]`: what enters layer 0"""
    normed: FloatArray
    """`[T, H]`: the final norm of the last layer's output"""
    attention: FloatArray | None = None
    """`[N, T, H]`: the attention (or linear-attention) branch, before it is added"""
    mlp: FloatArray | None = None
    """`[N, T, H]`: the MLP or MoE branch, before it is added"""
    final_normed: FloatArray | None = None
    """`[N, T, H]`: the final norm applied to each layer's output"""
    next_normed: FloatArray | None = None
    """`[N, T, H]`: the next layer's input norm applied to each layer's output; last entry: final norm"""

    @classmethod
    def from_arrays(cls, arrays: StateArrays) -> States:
        """What the reference process answered, as read-only views on its bytes."""
        values: dict[str, Any] = {
            name: None if (array := getattr(arrays, name)) is None else array.numpy()
            for name in arrays.__struct_fields__
            if name != "tokens"
        }
        return cls(tokens=tuple(arrays.tokens), **values)

    @property
    def depth(self) -> int:
        """N, the number of decoder layers."""
        return int(self.layers.shape[0])

    @property
    def width(self) -> int:
        """H, the width of one plane."""
        return int(self.layers.shape[2])
