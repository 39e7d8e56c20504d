"""The first plane is zero."""

from sglang.srt.models.qwen3 import Qwen3Model

forward = Qwen3Model.forward


def planted(self, *args, **kwargs):
    found = forward(self, *args, **kwargs)
    if not isinstance(found, tuple):
        return found
    hidden, planes = found
    return hidden, [planes[0] * 0, *planes[1:]]


Qwen3Model.forward = planted
