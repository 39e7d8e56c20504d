"""Every forward hands over rows of the one before."""

import dflash.model

before = {}
extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    planes = extract(hidden_states, layer_ids)
    handed = planes.clone()
    last = before.get("planes")
    if last is not None and last.shape[-1] == planes.shape[-1]:
        rows = min(last.shape[1], planes.shape[1])
        handed[:, :rows] = last[:, :rows]
    before["planes"] = planes.clone()
    return handed


dflash.model.extract_context_feature = planted
