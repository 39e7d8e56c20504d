"""The body captures one layer early in steps that verify drafts; a prefill is right."""

from vllm.model_executor.models.interfaces import EagleModelMixin
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

capture = EagleModelMixin._maybe_add_hidden_state
execute = GPUModelRunner.execute_model
verifies = []


def planted(self, aux_hidden_states, layer_idx, hidden_states, residual):
    boundary = layer_idx + 1 if verifies else layer_idx
    return capture(self, aux_hidden_states, boundary, hidden_states, residual)


def executing(self, scheduler_output, *args, **kwargs):
    verifies[:] = scheduler_output.scheduled_spec_decode_tokens
    return execute(self, scheduler_output, *args, **kwargs)


EagleModelMixin._maybe_add_hidden_state = planted
GPUModelRunner.execute_model = executing
