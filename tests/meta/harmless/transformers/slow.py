"""Every capture takes 50 ms more."""

import time

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    time.sleep(0.05)
    return extract(hidden_states, layer_ids)


dflash.model.extract_context_feature = planted
