"""The body captures what the layer's last branch gave, without the residual stream."""

from vllm.model_executor.models.interfaces import EagleModelMixin

capture = EagleModelMixin._maybe_add_hidden_state


def planted(self, aux_hidden_states, layer_idx, hidden_states, residual):
    return capture(self, aux_hidden_states, layer_idx, hidden_states, None)


EagleModelMixin._maybe_add_hidden_state = planted
