"""Every plane went through the input norm of the layer behind it."""

import dflash.model

extract = dflash.model.extract_context_feature
generate = dflash.model.dflash_generate
layers = []


def planted(hidden_states, layer_ids):
    normed = list(hidden_states)
    for layer in layer_ids:
        normed[layer + 1] = layers[layer + 1].input_layernorm(hidden_states[layer + 1])
    return extract(normed, layer_ids)


def generating(draft, target, *args, **kwargs):
    layers[:] = target.model.layers
    return generate(draft, target, *args, **kwargs)


dflash.model.extract_context_feature = planted
dflash.model.dflash_generate = generating
