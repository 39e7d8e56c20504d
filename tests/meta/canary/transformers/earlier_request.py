"""A request gets the planes of the request before it, row by row."""

import dflash.model
import torch

extract = dflash.model.extract_context_feature
generate = dflash.model.dflash_generate
mine, before = [], []


def planted(hidden_states, layer_ids):
    planes = extract(hidden_states, layer_ids)
    start = sum(part.shape[1] for part in mine)
    mine.append(planes)
    if not before:
        return planes
    old = torch.cat(before, 1)
    return old[:, torch.arange(start, start + planes.shape[1]) % old.shape[1]]


def generating(*args, **kwargs):
    before[:] = mine
    mine.clear()
    return generate(*args, **kwargs)


dflash.model.extract_context_feature = planted
dflash.model.dflash_generate = generating
