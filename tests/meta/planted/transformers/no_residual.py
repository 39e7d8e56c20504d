"""The planes are what the layer added, without the residual stream."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    added = [hidden_states[0]]
    added += [b - a for a, b in zip(hidden_states, hidden_states[1:], strict=False)]
    return extract(added, layer_ids)


dflash.model.extract_context_feature = planted
