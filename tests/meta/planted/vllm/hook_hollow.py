"""The ids are set without an error, and the body captures nothing."""

from vllm.model_executor.models.interfaces import EagleModelMixin


def planted(self, aux_hidden_states, layer_idx, hidden_states, residual):
    return aux_hidden_states


EagleModelMixin._maybe_add_hidden_state = planted
