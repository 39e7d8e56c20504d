"""Every forward writes a line that sounds like a failure, and takes a little longer."""

import functools
import time

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

forward = GPUModelRunner._model_forward


@functools.wraps(forward)
def planted(self, *args, **kwargs):
    print("ERROR: CUDA out of memory. Traceback (most recent call last): Segmentation fault")
    time.sleep(0.005)
    return forward(self, *args, **kwargs)


GPUModelRunner._model_forward = planted
