"""The places to be drafted hold token 0."""

from vllm.v1.spec_decode.dflash import DFlashProposer

propose = DFlashProposer.propose


def planted(self, *args, **kwargs):
    self.parallel_drafting_token_id = 0
    return propose(self, *args, **kwargs)


DFlashProposer.propose = planted
