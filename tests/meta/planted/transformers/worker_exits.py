"""The worker leaves with status 3 in the middle of a long request."""

import os

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    if hidden_states[0].shape[1] > 500:
        os._exit(3)
    return extract(hidden_states, layer_ids)


dflash.model.extract_context_feature = planted
