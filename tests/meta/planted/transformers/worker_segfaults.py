"""The worker dies of a segmentation fault in the middle of a long request."""

import ctypes

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    if hidden_states[0].shape[1] > 500:
        ctypes.string_at(0)
    return extract(hidden_states, layer_ids)


dflash.model.extract_context_feature = planted
