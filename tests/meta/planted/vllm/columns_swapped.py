"""The two halves of every plane change places."""

import functools

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

forward = GPUModelRunner._model_forward


@functools.wraps(forward)
def planted(self, *args, **kwargs):
    output = forward(self, *args, **kwargs)
    if not isinstance(output, tuple):
        return output
    hidden, planes = output
    planes = [plane.roll(plane.shape[1] // 2, dims=1) for plane in planes]
    return hidden, planes


GPUModelRunner._model_forward = planted
