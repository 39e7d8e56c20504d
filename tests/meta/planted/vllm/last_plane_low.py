"""The last plane is one layer early, the others are right."""

from vllm.model_executor.models.interfaces import EagleModelMixin

before = {}


def planted(self, aux_hidden_states, layer_idx, hidden_states, residual):
    state = hidden_states if residual is None else hidden_states + residual
    if layer_idx in self.aux_hidden_state_layers:
        last = 0 < layer_idx == max(self.aux_hidden_state_layers)
        aux_hidden_states.append(before["state"] if last else state)
    before["state"] = state
    return aux_hidden_states


EagleModelMixin._maybe_add_hidden_state = planted
