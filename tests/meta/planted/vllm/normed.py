"""The body captures behind the next layer's input norm, where the raw state is due."""

from vllm.model_executor.models.interfaces import EagleModelMixin

capture = EagleModelMixin._maybe_add_hidden_state


def planted(self, aux_hidden_states, layer_idx, hidden_states, residual):
    norm = self.layers[layer_idx].input_layernorm if layer_idx < len(self.layers) else self.norm
    state = hidden_states if residual is None else hidden_states + residual
    return capture(self, aux_hidden_states, layer_idx, norm(state.clone()), None)


EagleModelMixin._maybe_add_hidden_state = planted
