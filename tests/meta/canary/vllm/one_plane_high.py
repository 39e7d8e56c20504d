"""The first plane is one layer late, the others are right."""

from vllm.model_executor.models.interfaces import EagleModelMixin

late = []


def planted(self, aux_hidden_states, layer_idx, hidden_states, residual):
    state = hidden_states if residual is None else hidden_states + residual
    first = min(self.aux_hidden_state_layers, default=None)
    if layer_idx == first:
        late[:] = [len(aux_hidden_states)]
    elif late and layer_idx == first + 1:
        aux_hidden_states.insert(late.pop(), state)
    elif layer_idx in self.aux_hidden_state_layers:
        aux_hidden_states.append(state)
    return aux_hidden_states


EagleModelMixin._maybe_add_hidden_state = planted
