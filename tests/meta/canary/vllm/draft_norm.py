"""Every layer of the draft norms its input with the first layer's weights."""

import functools

from vllm.v1.spec_decode.dflash import DFlashProposer

propose = DFlashProposer.propose


@functools.wraps(propose)
def planted(self, *args, **kwargs):
    layers = self.model.model.layers
    for layer in layers:
        layer.input_layernorm = layers[0].input_layernorm
    return propose(self, *args, **kwargs)


DFlashProposer.propose = planted
