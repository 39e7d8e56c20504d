"""The worker is killed in the middle of a long request, as by the kernel."""

import os
import signal

import dflash.model

extract = dflash.model.extract_context_feature


def planted(hidden_states, layer_ids):
    if hidden_states[0].shape[1] > 500:
        os.kill(os.getpid(), signal.SIGKILL)
    return extract(hidden_states, layer_ids)


dflash.model.extract_context_feature = planted
