"""One request takes memory without end."""

import dflash.model

extract = dflash.model.extract_context_feature
calls = []


def planted(hidden_states, layer_ids):
    calls.append(1)
    if len(calls) == 40:
        calls.extend(bytearray(b"x") * (64 << 20) for _ in range(200))
    return extract(hidden_states, layer_ids)


dflash.model.extract_context_feature = planted
