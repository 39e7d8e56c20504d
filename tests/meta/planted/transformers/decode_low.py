"""The ids are one low in verify steps only; the prefill is right."""

import dflash.model

extract = dflash.model.extract_context_feature
generate = dflash.model.dflash_generate
forwards = []


def planted(hidden_states, layer_ids):
    forwards.append(1)
    verify = len(forwards) > 1
    return extract((hidden_states[0], *hidden_states) if verify else hidden_states, layer_ids)


def generating(*args, **options):
    forwards.clear()
    return generate(*args, **options)


dflash.model.extract_context_feature = planted
dflash.model.dflash_generate = generating
