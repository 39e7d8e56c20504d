"""The setter drops the last of several ids."""

from vllm.model_executor.models.interfaces import EagleModelMixin

set_layers = EagleModelMixin._set_aux_hidden_state_layers


def planted(self, layers):
    set_layers(self, tuple(layers)[:-1] or tuple(layers))


EagleModelMixin._set_aux_hidden_state_layers = planted
