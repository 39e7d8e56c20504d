"""The worker leaves with status 3 in the middle of a long request."""

import functools
import os

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

forward = GPUModelRunner._model_forward


@functools.wraps(forward)
def planted(self, input_ids, positions, *args, **kwargs):
    if positions.max() > 500:
        os._exit(3)
    return forward(self, input_ids, positions, *args, **kwargs)


GPUModelRunner._model_forward = planted
