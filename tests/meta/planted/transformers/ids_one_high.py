"""Every plane is the layer after the one asked for."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    return extract(hidden_states, [min(i + 1, len(hidden_states) - 2) for i in layer_ids])


dflash.model.extract_context_feature = planted
