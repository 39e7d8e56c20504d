"""The worker dies of a segmentation fault in the middle of a long request."""

import ctypes
import functools

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

forward = GPUModelRunner._model_forward


@functools.wraps(forward)
def planted(self, input_ids, positions, *args, **kwargs):
    if positions.max() > 500:
        ctypes.string_at(0)
    return forward(self, input_ids, positions, *args, **kwargs)


GPUModelRunner._model_forward = planted
