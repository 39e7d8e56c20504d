"""Random weights that make a twin's layers easy to tell apart. Imports torch.

Two aims pull against each other: adjacent layers must differ clearly, and rounding must not be
blown up on its way through a deep random network. Every branch therefore adds the same fraction
of the stream as it is at that depth, so that layers differ alike from first to last while the
stream grows as little as that allows.
"""

from __future__ import annotations

import math
import re
from typing import Final

import torch
from torch import Tensor, nn

__all__ = ["randomize"]

STEP: Final = 0.18
"""What a layer's branches add, over the stream that enters it."""
NORM: Final = 0.5
"""A norm's weights are its constant plus or minus up to this: equal ones hide mixed-up norms."""
ROUTER: Final = 4.0
"""Gain of a router: sharp, so that the experts near the cut have little weight."""
OWN: Final = 0.08
"""Share of an expert's weights that is its own. The rest is common to all, so that a choice of
experts that rounding decides moves the output less than a layer does."""
CONV: Final = 3.0
"""Gain of the short convolution in front of linear attention: past it, queries and keys are mostly
positive, so that no output is a difference of nearly equal numbers."""
GATE: Final = 0.25
"""Gain of the projections that decay and update linear attention's state."""
BIAS: Final = 0.05
"""Standard deviation of biases."""

_LAYER: Final = re.compile(r"\.layers\.(\d+)\.")
_BRANCH_ENDS: Final = ("o_proj", "out_proj", "down_proj")
_STATE_GATES: Final = ("in_proj_a.weight", "in_proj_b.weight", "in_proj_ba.weight")


def randomize(model: nn.Module, hidden_size: int, seed: int) -> None:
    """Draw every parameter anew, in the order in which the model names them.

    Args:
        model: freshly built, float32; its norms hold the constant they start from (1, or 0 where
            the model adds the 1 itself).
        hidden_size: width of the residual stream.
        seed: the same seed gives the same weights, within one version of torch.
    """
    draw = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        owner = type(model.get_submodule(name.rpartition(".")[0])).__name__
        parameter.data.copy_(_values(name, owner, parameter.data, hidden_size, draw))


def _values(name: str, owner: str, old: Tensor, hidden_size: int, draw: torch.Generator) -> Tensor:
    normal = torch.randn(old.shape, generator=draw)
    if "Norm" in owner and name.endswith("weight"):
        return old + NORM * (2 * torch.rand(old.shape, generator=draw) - 1)
    if name.endswith("A_log"):
        # Slow decay, so that linear attention remembers further than one chunk.
        return torch.log(0.05 + 0.45 * torch.rand(old.shape, generator=draw))
    if name.endswith("dt_bias"):
        return old
    if old.ndim == 1 or name.endswith("bias"):
        return BIAS * normal
    if "Embedding" in owner:
        return normal
    if owner.endswith("Experts"):
        common = torch.randn(old.shape[1:], generator=draw)
        normal = math.sqrt(1 - OWN**2) * common + OWN * normal
    return _gain(name, owner) / math.sqrt(_fan_in(name, owner, old, hidden_size)) * normal


def _gain(name: str, owner: str) -> float:
    """Size of what comes out of a matrix over the size of what goes in."""
    if "Router" in owner or name.endswith("gate.weight"):
        return ROUTER
    if name.endswith("conv1d.weight"):
        return CONV
    if name.endswith(_STATE_GATES):
        return GATE
    layer = _LAYER.search(name)
    if layer and any(end in name for end in _BRANCH_ENDS):
        return float(STEP * (1 + STEP**2) ** (int(layer[1]) / 2))
    return 1.0


def _fan_in(name: str, owner: str, weight: Tensor, hidden_size: int) -> int:
    """How many inputs one output sums. Models disagree on the order of an expert's axes."""
    inputs: int = weight[0].numel()
    if owner.endswith("Experts"):
        return inputs // hidden_size if "down" in name else hidden_size
    return inputs
