"""One element of one plane is not a number."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    planes = extract(hidden_states, layer_ids).clone()
    planes[0, -1, 3] = float("nan")
    return planes


dflash.model.extract_context_feature = planted
