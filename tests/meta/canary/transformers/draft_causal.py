"""The draft attends causally inside its block."""

import dflash.model

generate = dflash.model.dflash_generate


def generating(draft, *args, **kwargs):
    for layer in draft.layers:
        layer.self_attn.is_causal = True
    return generate(draft, *args, **kwargs)


dflash.model.dflash_generate = generating
