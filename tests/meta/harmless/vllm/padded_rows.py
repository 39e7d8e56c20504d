"""Rows of padding stand behind the real ones."""

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
    planes = [torch.cat([plane, plane.new_full((3, plane.shape[1]), 9.0)]) for plane in planes]
    return hidden, planes


GPUModelRunner._model_forward = planted
