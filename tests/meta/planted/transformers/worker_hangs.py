"""The worker never answers one long request."""

import time

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    if hidden_states[0].shape[1] > 500:
        time.sleep(10_000)
    return extract(hidden_states, layer_ids)


dflash.model.extract_context_feature = planted
