"""The planes are copies."""

from sglang.srt.models.qwen3 import Qwen3Model

forward = Qwen3Model.forward


def planted(self, *args, **kwargs):
    found = forward(self, *args, **kwargs)
    if not isinstance(found, tuple):
        return found
    hidden, planes = found
    return hidden, [plane.clone() for plane in planes]


Qwen3Model.forward = planted
