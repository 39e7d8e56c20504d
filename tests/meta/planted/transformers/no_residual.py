"""The planes are what the layer added, without the residual stream."""

from itertools import pairwise

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    added = [hidden_states[0]]
    added += [b - a for a, b in pairwise(hidden_states)]
    return extract(added, layer_ids)


dflash.model.extract_context_feature = planted
