"""Verify steps hand over rows of padding behind the real ones."""

import dflash.model
import torch

seen = []
extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    planes = extract(hidden_states, layer_ids)
    if not seen:
        seen.append(planes.shape)
        return planes
    return (
        planes
        if planes.shape[1] != 8
        else torch.cat([planes, planes.new_full((1, 3, planes.shape[2]), 9.0)], 1)
    )


dflash.model.extract_context_feature = planted
