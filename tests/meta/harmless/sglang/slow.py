"""Every capture takes 20 ms more."""

import time

from sglang.srt.models.qwen3 import Qwen3Model

forward = Qwen3Model.forward


def planted(self, *args, **kwargs):
    found = forward(self, *args, **kwargs)
    if not isinstance(found, tuple):
        return found
    time.sleep(0.02)
    return found


Qwen3Model.forward = planted
