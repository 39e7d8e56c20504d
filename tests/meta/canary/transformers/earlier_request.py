"""A request gets the planes of the request before it."""

import dflash.model

extract = dflash.model.extract_context_feature
generate = dflash.model.dflash_generate
mine, before = [], []


def planted(hidden_states, layer_ids):
    planes = extract(hidden_states, layer_ids)
    mine.append(planes)
    rows = [p for p in before if p.shape[1] > 1] or [planes]
    last = rows[-1]
    count = -(-planes.shape[1] // last.shape[1])
    return last.repeat(1, count, 1)[:, -planes.shape[1] :]


def generating(*args, **kwargs):
    before[:] = mine
    mine.clear()
    return generate(*args, **kwargs)


dflash.model.extract_context_feature = planted
dflash.model.dflash_generate = generating
