"""One long request takes memory without end."""

import dflash.model

extract = dflash.model.extract_context_feature
hogs = []


def planted(hidden_states, layer_ids):
    if hidden_states[0].shape[1] > 500:
        hogs.extend(bytearray(b"x") * (64 << 20) for _ in range(200))
    return extract(hidden_states, layer_ids)


dflash.model.extract_context_feature = planted
