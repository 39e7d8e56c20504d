"""Every layer of the draft norms its input with the first layer's weights."""

from vllm.model_executor.models.qwen3_dflash import DFlashQwen3Model

forward = DFlashQwen3Model.forward


def planted(self, *args, **kwargs):
    for layer in self.layers:
        layer.input_layernorm = self.layers[0].input_layernorm
    return forward(self, *args, **kwargs)


DFlashQwen3Model.forward = planted
