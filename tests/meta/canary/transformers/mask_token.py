"""The places to be drafted hold token 0."""

import dflash.model

generate = dflash.model.dflash_generate


def generating(draft, *args, **kwargs):
    draft.mask_token_id = 0
    return generate(draft, *args, **kwargs)


dflash.model.dflash_generate = generating
