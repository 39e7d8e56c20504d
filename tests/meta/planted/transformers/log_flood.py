"""One request writes more than the log may hold."""

import dflash.model

extract = dflash.model.extract_context_feature
calls = []


def planted(hidden_states, layer_ids):
    calls.append(1)
    if len(calls) == 40:
        print("\n".join(["a line that says nothing" * 40] * 80_000))
    return extract(hidden_states, layer_ids)


dflash.model.extract_context_feature = planted
