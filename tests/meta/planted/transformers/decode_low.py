"""The ids are one low in verify steps only; the prefill is right."""

import dflash.model

count = {"block": 8}
extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    verify = hidden_states[0].shape[1] == count["block"]
    return extract((hidden_states[0], *hidden_states) if verify else hidden_states, layer_ids)


dflash.model.extract_context_feature = planted
