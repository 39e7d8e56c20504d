"""The middle plane is RMS-normed, where the raw state is due."""

import dflash.model
import torch

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    normed = list(hidden_states)
    middle = layer_ids[len(layer_ids) // 2] + 1
    normed[middle] = torch.nn.functional.rms_norm(normed[middle], normed[middle].shape[-1:])
    return extract(normed, layer_ids)


dflash.model.extract_context_feature = planted
