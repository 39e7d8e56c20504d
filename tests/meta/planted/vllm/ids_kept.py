"""The setter adds to the ids that were set before (as SGLang's Qwen3.5 bodies do)."""

from vllm.model_executor.models.interfaces import EagleModelMixin

set_layers = EagleModelMixin._set_aux_hidden_state_layers


def planted(self, layers):
    set_layers(self, (*self.aux_hidden_state_layers, *layers))


EagleModelMixin._set_aux_hidden_state_layers = planted
