"""The second half of every plane is zero."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    half = hidden_states[0].shape[-1] // 2
    cut = [state.clone() for state in hidden_states]
    for state in cut:
        state[..., half:] = 0
    return extract(cut, layer_ids)


dflash.model.extract_context_feature = planted
