"""The body captures the residual stream without the layer's last branch."""

from vllm.model_executor.models.interfaces import EagleModelMixin

capture = EagleModelMixin._maybe_add_hidden_state


def planted(self, aux_hidden_states, layer_idx, hidden_states, residual):
    stream = hidden_states if residual is None else residual
    return capture(self, aux_hidden_states, layer_idx, stream, None)


EagleModelMixin._maybe_add_hidden_state = planted
