"""The second plane is one layer late, the others are right."""

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    return extract(
        hidden_states,
        [i + 1 if n == 1 and i + 2 < len(hidden_states) else i for n, i in enumerate(layer_ids)],
    )


dflash.model.extract_context_feature = planted
