"""A relative noise of 1e-6."""

import torch
from sglang.srt.models.qwen3 import Qwen3Model

forward = Qwen3Model.forward


def planted(self, *args, **kwargs):
    found = forward(self, *args, **kwargs)
    if not isinstance(found, tuple):
        return found
    hidden, planes = found
    return hidden, [plane * (1 + 1e-6 * torch.randn_like(plane)) for plane in planes]


Qwen3Model.forward = planted
