"""The planes come in sorted order, whatever was asked for (as vLLM 0.32.0 does)."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    return extract(hidden_states, sorted(layer_ids))


dflash.model.extract_context_feature = planted
