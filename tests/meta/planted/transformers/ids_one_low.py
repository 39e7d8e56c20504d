"""The missing +1 of vLLM #40727: every plane is the layer before the one asked for."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    return extract((hidden_states[0], *hidden_states), layer_ids)


dflash.model.extract_context_feature = planted
