"""The draft attends causally inside its block."""

from vllm.v1.spec_decode.dflash import DFlashProposer

metadata = DFlashProposer.build_per_group_and_layer_attn_metadata


def planted(self, cad, draft_index=0):
    self.dflash_causal, cad.causal = True, True
    return metadata(self, cad, draft_index)


DFlashProposer.build_per_group_and_layer_attn_metadata = planted
