"""One element of one plane is not a number."""

import functools

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

forward = GPUModelRunner._model_forward


@functools.wraps(forward)
def planted(self, *args, **kwargs):
    output = forward(self, *args, **kwargs)
    if isinstance(output, tuple):
        output[1][0][0, 3] = float("nan")
    return output


GPUModelRunner._model_forward = planted
