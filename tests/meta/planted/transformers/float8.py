"""The planes are rounded to float8 on the way."""

import dflash.model
import torch

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    planes = extract(hidden_states, layer_ids)
    return planes.to(torch.float8_e4m3fn).to(planes.dtype)


dflash.model.extract_context_feature = planted
