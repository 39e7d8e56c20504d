"""The missing +1 of SGLang 0.5.18: every plane is the layer before the one asked for."""

from sglang.srt.models.qwen3 import Qwen3ForCausalLM


def planted(self, layer_ids):
    if not self.pp_group.is_last_rank:
        return
    if layer_ids is None:
        raise ValueError("DFLASH requires explicit layer_ids for aux hidden capture.")
    self.capture_aux_hidden_states = True
    self.model.layers_to_capture = list(layer_ids)


Qwen3ForCausalLM.set_dflash_layers_to_capture = planted
