"""The planes come in reversed order."""

import functools

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

forward = GPUModelRunner._model_forward


@functools.wraps(forward)
def planted(self, *args, **kwargs):
    output = forward(self, *args, **kwargs)
    if not isinstance(output, tuple):
        return output
    hidden, planes = output
    planes = planes[::-1]
    return hidden, planes


GPUModelRunner._model_forward = planted
