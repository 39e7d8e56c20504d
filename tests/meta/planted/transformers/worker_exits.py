"""The worker leaves with status 3 in the middle of a request."""

import os

import dflash.model

extract = dflash.model.extract_context_feature
calls = []


def planted(hidden_states, layer_ids):
    calls.append(1)
    if len(calls) == 40:
        os._exit(3)
    return extract(hidden_states, layer_ids)


dflash.model.extract_context_feature = planted
