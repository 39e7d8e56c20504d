"""A log line that sounds like a failure."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    print("ERROR: CUDA out of memory. Traceback (most recent call last): Segmentation fault")
    return extract(hidden_states, layer_ids)


dflash.model.extract_context_feature = planted
