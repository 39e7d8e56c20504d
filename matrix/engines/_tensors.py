"""Torch tensors as messages, and a loaded model as data; imported in workers alone."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import nn

from matrix.engines._messages import Array

__all__ = ["array", "weights"]


def array(tensor: torch.Tensor) -> Array:
    """A copy of the values on the CPU, widened to float32 (float64 stays)."""
    kind = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    values = tensor.detach().to("cpu", kind).contiguous().numpy()
    return Array(str(tensor.dtype).removeprefix("torch."), values.shape, values.tobytes())


def weights(model: nn.Module) -> dict[str, Any]:
    """A digest over every parameter and buffer, byte by byte, and how many have which dtype."""
    digest = hashlib.sha256()
    dtypes: dict[str, int] = {}
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        dtypes[str(value.dtype)] = dtypes.get(str(value.dtype), 0) + 1
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return {"dtypes": dtypes, "weights": digest.hexdigest()}
