"""The first plane comes in every place."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    return extract(hidden_states, [layer_ids[0]] * len(layer_ids))


dflash.model.extract_context_feature = planted
