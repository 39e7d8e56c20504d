"""Torch tensors as messages, and a loaded model as data; imported in workers alone."""

from __future__ import annotations

import hashlib
import json
import platform
from typing import Any

import torch
import transformers
from torch import nn

from matrix.engines._messages import Array

__all__ = ["array", "describe", "versions"]


def array(tensor: torch.Tensor) -> Array:
    """A copy of the values on the CPU, widened to float32 (float64 stays)."""
    kind = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    values = tensor.detach().to("cpu", kind).contiguous().numpy()
    return Array(str(tensor.dtype).removeprefix("torch."), values.shape, values.tobytes())


def versions() -> dict[str, Any]:
    """The fields of an `Identity` that say what an adapter runs on."""
    cuda = torch.cuda.is_available()
    return {
        "python": platform.python_version(),
        "transformers": transformers.__version__,
        "torch": str(torch.__version__),
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "driver": str(torch.version.cuda) if cuda else None,
    }


def describe(config: Any, model: nn.Module) -> dict[str, Any]:
    """A loaded target as data: its config, and a digest over every parameter and buffer."""
    return {"config": json.loads(config.to_json_string(use_diff=False)), **_weights(model)}


def _weights(model: nn.Module) -> dict[str, Any]:
    """A digest, byte by byte, and how many parameters and buffers have which dtype."""
    digest = hashlib.sha256()
    dtypes: dict[str, int] = {}
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        dtypes[str(value.dtype)] = dtypes.get(str(value.dtype), 0) + 1
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return {"dtypes": dtypes, "weights": digest.hexdigest()}
