"""Tuples where lists were."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    return extract(tuple(hidden_states), tuple(layer_ids))


dflash.model.extract_context_feature = planted
