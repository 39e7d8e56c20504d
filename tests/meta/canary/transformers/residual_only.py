"""The planes are the residual stream, before the MLP's branch was added."""

import dflash.model
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer

branches = []
forward = Qwen3DecoderLayer.forward
extract = dflash.model.extract_context_feature


def watched(self, *args, **kwargs):
    kept = []
    handle = self.mlp.register_forward_hook(lambda module, args, output: kept.append(output))
    try:
        return forward(self, *args, **kwargs)
    finally:
        handle.remove()
        branches.append(kept[0])


def planted(hidden_states, layer_ids):
    last = branches[-(len(hidden_states) - 1) :]
    stream = [state - branch for state, branch in zip(hidden_states[1:], last, strict=True)]
    return extract([hidden_states[0], *stream], layer_ids)


Qwen3DecoderLayer.forward = watched
dflash.model.extract_context_feature = planted
