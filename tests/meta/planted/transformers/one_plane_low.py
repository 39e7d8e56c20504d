"""The last plane is one layer early, the others are right."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    return extract(hidden_states, [*layer_ids[:-1], layer_ids[-1] - 1])


dflash.model.extract_context_feature = planted
