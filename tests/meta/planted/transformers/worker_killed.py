"""The worker is killed in the middle of a request, as by the kernel."""

import os
import signal

import dflash.model

extract = dflash.model.extract_context_feature
calls = []


def planted(hidden_states, layer_ids):
    calls.append(1)
    if len(calls) == 40:
        os.kill(os.getpid(), signal.SIGKILL)
    return extract(hidden_states, layer_ids)


dflash.model.extract_context_feature = planted
