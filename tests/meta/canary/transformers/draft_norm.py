"""Every layer of the draft norms its input with the first layer's weights."""

import dflash.model

generate = dflash.model.dflash_generate


def generating(draft, *args, **kwargs):
    for layer in draft.layers:
        layer.input_layernorm = draft.layers[0].input_layernorm
    return generate(draft, *args, **kwargs)


dflash.model.dflash_generate = generating
