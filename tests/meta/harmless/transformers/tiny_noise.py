"""A relative noise of 1e-6."""

import dflash.model
import torch

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    planes = extract(hidden_states, layer_ids)
    return planes * (1 + 1e-6 * torch.randn_like(planes))


dflash.model.extract_context_feature = planted
