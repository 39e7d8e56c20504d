"""The setter adds the 1 that the runner has added: every plane is the layer after."""

from vllm.model_executor.models.interfaces import EagleModelMixin

set_layers = EagleModelMixin._set_aux_hidden_state_layers


def planted(self, layers):
    set_layers(self, tuple(layer + 1 for layer in layers))


EagleModelMixin._set_aux_hidden_state_layers = planted
