"""The worker dies of a segmentation fault in the middle of a request."""

import ctypes

import dflash.model

extract = dflash.model.extract_context_feature
calls = []


def planted(hidden_states, layer_ids):
    calls.append(1)
    if len(calls) == 40:
        ctypes.string_at(0)
    return extract(hidden_states, layer_ids)


dflash.model.extract_context_feature = planted
