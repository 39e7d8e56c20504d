"""The planes come in reversed order."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    return extract(hidden_states, list(layer_ids)[::-1])


dflash.model.extract_context_feature = planted
