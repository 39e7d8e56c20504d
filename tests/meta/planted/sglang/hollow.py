"""The hook is there, takes the ids, and sets nothing."""

from sglang.srt.models.qwen3 import Qwen3ForCausalLM


def planted(self, layer_ids):
    if not self.pp_group.is_last_rank:
        return
    if layer_ids is None:
        raise ValueError("DFLASH requires explicit layer_ids for aux hidden capture.")


Qwen3ForCausalLM.set_dflash_layers_to_capture = planted
