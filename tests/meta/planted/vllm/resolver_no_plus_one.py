"""The runner's resolver forgets the +1 of DFlash's ids (vLLM #40727)."""

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

resolve = GPUModelRunner._get_eagle3_aux_layers_from_config


def planted(self):
    layers = resolve(self)
    config = self.speculative_config.draft_model_config.hf_config
    if layers and not getattr(config, "eagle_aux_hidden_state_layer_ids", None):
        return tuple(layer - 1 for layer in layers)
    return layers


GPUModelRunner._get_eagle3_aux_layers_from_config = planted
