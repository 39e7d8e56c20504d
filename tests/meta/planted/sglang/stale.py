"""Every forward hands over rows of the one before."""

from sglang.srt.models.qwen3 import Qwen3Model

forward = Qwen3Model.forward
before = []


def planted(self, *args, **kwargs):
    found = forward(self, *args, **kwargs)
    if not isinstance(found, tuple):
        return found
    hidden, planes = found
    handed = [plane.clone() for plane in planes]
    for new, old in zip(handed, before, strict=False):
        rows = min(len(new), len(old))
        new[:rows] = old[:rows]
    before[:] = [plane.clone() for plane in planes]
    return hidden, handed


Qwen3Model.forward = planted
