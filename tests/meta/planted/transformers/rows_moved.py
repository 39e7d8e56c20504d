"""Every row moves by one position."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    return extract([state.roll(1, dims=1) for state in hidden_states], layer_ids)


dflash.model.extract_context_feature = planted
