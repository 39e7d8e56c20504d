"""The worker never answers one request."""

import time

import dflash.model

extract = dflash.model.extract_context_feature
calls = []


def planted(hidden_states, layer_ids):
    calls.append(1)
    if len(calls) == 40:
        time.sleep(10_000)
    return extract(hidden_states, layer_ids)


dflash.model.extract_context_feature = planted
