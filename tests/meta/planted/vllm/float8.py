"""The planes are rounded to float8 on the way."""

import functools

import torch
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

forward = GPUModelRunner._model_forward


@functools.wraps(forward)
def planted(self, *args, **kwargs):
    output = forward(self, *args, **kwargs)
    if not isinstance(output, tuple):
        return output
    hidden, planes = output
    planes = [plane.to(torch.float8_e4m3fn).to(plane.dtype) for plane in planes]
    return hidden, planes


GPUModelRunner._model_forward = planted
