"""The planes are copies."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    return extract([state.clone() for state in hidden_states], layer_ids)


dflash.model.extract_context_feature = planted
