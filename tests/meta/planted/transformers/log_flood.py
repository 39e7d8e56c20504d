"""One long request writes more than the log may hold."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    if hidden_states[0].shape[1] > 500:
        print("\n".join(["a line that says nothing" * 40] * 80_000))
    return extract(hidden_states, layer_ids)


dflash.model.extract_context_feature = planted
