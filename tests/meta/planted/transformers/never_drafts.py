"""Speculation falls back to plain decoding without a word."""

import dflash.model

generate = dflash.model.dflash_generate


def planted(model, target, input_ids, max_new_tokens, stop_token_ids, **options):
    options["block_size"] = 1
    return generate(model, target, input_ids, max_new_tokens, stop_token_ids, **options)


dflash.model.dflash_generate = planted
