"""One token of the output is another one."""

import dflash.model

generate = dflash.model.dflash_generate


def planted(model, target, input_ids, *args, **options):
    out = generate(model, target, input_ids, *args, **options).clone()
    if out.shape[1] > input_ids.shape[1] + 2:
        out[0, -2] = (out[0, -2] + 1) % 500
    return out


dflash.model.dflash_generate = planted
