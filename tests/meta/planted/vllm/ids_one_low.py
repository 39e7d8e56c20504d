"""The setter takes layer ids for boundaries: every plane is the layer before the one asked for."""

from vllm.model_executor.models.interfaces import EagleModelMixin

set_layers = EagleModelMixin._set_aux_hidden_state_layers


def planted(self, layers):
    set_layers(self, tuple(layer - 1 for layer in layers))


EagleModelMixin._set_aux_hidden_state_layers = planted
