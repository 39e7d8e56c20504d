"""The last plane is left out."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    return extract(hidden_states, list(layer_ids)[:-1] or list(layer_ids))


dflash.model.extract_context_feature = planted
