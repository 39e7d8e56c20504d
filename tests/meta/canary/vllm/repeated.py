"""The first plane stands in the second's place too."""

import functools

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

forward = GPUModelRunner._model_forward


@functools.wraps(forward)
def planted(self, *args, **kwargs):
    output = forward(self, *args, **kwargs)
    if not isinstance(output, tuple):
        return output
    hidden, planes = output
    return hidden, [planes[0], planes[0], *planes[2:]]


GPUModelRunner._model_forward = planted
