"""A second call adds to the first, as where bodies mark layers and never unmark them."""

from sglang.srt.models.qwen3 import Qwen3ForCausalLM


def planted(self, layer_ids):
    if not self.pp_group.is_last_rank:
        return
    if layer_ids is None:
        raise ValueError("DFLASH requires explicit layer_ids for aux hidden capture.")
    self.capture_aux_hidden_states = True
    earlier = self.model.layers_to_capture
    self.model.layers_to_capture = sorted({*earlier, *(i + 1 for i in layer_ids)})


Qwen3ForCausalLM.set_dflash_layers_to_capture = planted
