"""The draft takes in the rows of the request before, at their positions."""

import dflash.model
import torch

forward = dflash.model.DFlashDraftModel.forward
generate = dflash.model.dflash_generate
mine, before = [], []


def planted(self, *args, target_hidden, **kwargs):
    start = sum(part.shape[1] for part in mine)
    mine.append(target_hidden)
    if before:
        old = torch.cat(before, 1)
        rows = torch.arange(start, start + target_hidden.shape[1]) % old.shape[1]
        target_hidden = old[:, rows]
    return forward(self, *args, target_hidden=target_hidden, **kwargs)


def generating(*args, **kwargs):
    before[:] = mine
    mine.clear()
    return generate(*args, **kwargs)


dflash.model.DFlashDraftModel.forward = planted
dflash.model.dflash_generate = generating
