"""One buffer is used for the planes of every forward."""

import dflash.model

buffer = {}
extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    planes = extract(hidden_states, layer_ids)
    flat = buffer.setdefault(planes.dtype, planes.new_empty(1 << 22))
    view = flat[: planes.numel()].view(planes.shape)
    view.copy_(planes)
    return view


dflash.model.extract_context_feature = planted
