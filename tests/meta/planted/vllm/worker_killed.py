"""The worker is killed in the middle of a long request, as by the kernel."""

import functools
import os
import signal

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

forward = GPUModelRunner._model_forward


@functools.wraps(forward)
def planted(self, input_ids, positions, *args, **kwargs):
    if positions.max() > 500:
        os.kill(os.getpid(), signal.SIGKILL)
    return forward(self, input_ids, positions, *args, **kwargs)


GPUModelRunner._model_forward = planted
