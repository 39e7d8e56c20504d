"""Within a request, every forward hands over rows of the one before."""

import dflash.model

before = {}
extract = dflash.model.extract_context_feature
generate = dflash.model.dflash_generate


def planted(hidden_states, layer_ids):
    planes = extract(hidden_states, layer_ids)
    handed = planes.clone()
    last = before.get("planes")
    if last is not None:
        rows = min(last.shape[1], planes.shape[1])
        handed[:, :rows] = last[:, :rows]
    before["planes"] = planes.clone()
    return handed


def generating(*args, **options):
    before.clear()
    return generate(*args, **options)


dflash.model.extract_context_feature = planted
dflash.model.dflash_generate = generating
