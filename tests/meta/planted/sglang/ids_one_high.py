"""Every plane is the layer after the one asked for."""

from sglang.srt.models.qwen3 import Qwen3ForCausalLM


def planted(self, layer_ids):
    if not self.pp_group.is_last_rank:
        return
    if layer_ids is None:
        raise ValueError("DFLASH requires explicit layer_ids for aux hidden capture.")
    self.capture_aux_hidden_states = True
    self.model.layers_to_capture = [i + 2 for i in layer_ids]


Qwen3ForCausalLM.set_dflash_layers_to_capture = planted
