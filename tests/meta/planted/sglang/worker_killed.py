"""In the middle of a long request SGLang ends itself as it does on any exception: its parent gets a
signal, and every process below it is killed, the worker included."""

import os
import signal

import psutil
from sglang.srt.models.qwen3 import Qwen3Model
from sglang.srt.utils import kill_process_tree

forward = Qwen3Model.forward


def planted(self, input_ids, positions, *args, **kwargs):
    if int(positions.max()) > 500:
        psutil.Process().parent().send_signal(signal.SIGQUIT)
        kill_process_tree(os.getpid(), include_parent=True)
    return forward(self, input_ids, positions, *args, **kwargs)


Qwen3Model.forward = planted
