"""The planes are what the layer added, without the residual stream."""

from sglang.srt.models.qwen3 import Qwen3Model

forward = Qwen3Model.forward


def planted(self, *args, **kwargs):
    asked = sorted(set(self.layers_to_capture))
    self.layers_to_capture = sorted({*asked, *(b - 1 for b in asked)})
    try:
        found = forward(self, *args, **kwargs)
    finally:
        both, self.layers_to_capture = self.layers_to_capture, asked
    if not isinstance(found, tuple):
        return found
    hidden, planes = found
    at = dict(zip(both, planes, strict=False))
    return hidden, [at[b] - at[b - 1] for b in asked if b in at]


Qwen3Model.forward = planted
