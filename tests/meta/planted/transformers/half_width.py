"""Every plane is cut to half its width."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    half = hidden_states[0].shape[-1] // 2
    return extract([state[..., :half] for state in hidden_states], layer_ids)


dflash.model.extract_context_feature = planted
