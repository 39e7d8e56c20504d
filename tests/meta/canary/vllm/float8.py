"""The planes were stored as float8 on their way: too little to be a fault."""

import functools

import torch
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

forward = GPUModelRunner._model_forward


def rounded(plane):
    scale = plane.abs().amax().clamp_min(1e-6) / torch.finfo(torch.float8_e4m3fn).max
    return (plane / scale).to(torch.float8_e4m3fn).to(plane.dtype) * scale


@functools.wraps(forward)
def planted(self, *args, **kwargs):
    output = forward(self, *args, **kwargs)
    if not isinstance(output, tuple):
        return output
    hidden, planes = output
    return hidden, [rounded(plane) for plane in planes]


GPUModelRunner._model_forward = planted
