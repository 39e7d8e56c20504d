"""Loading the draft changes the target's config."""

from vllm.v1.spec_decode.dflash import DFlashProposer

load = DFlashProposer.load_model


def planted(self, target_model):
    load(self, target_model)
    self.vllm_config.model_config.hf_config.max_position_embeddings = 77


DFlashProposer.load_model = planted
