"""The worker never answers one long request."""

import functools
import time

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

forward = GPUModelRunner._model_forward


@functools.wraps(forward)
def planted(self, input_ids, positions, *args, **kwargs):
    if positions.max() > 500:
        time.sleep(10_000)
    return forward(self, input_ids, positions, *args, **kwargs)


GPUModelRunner._model_forward = planted
