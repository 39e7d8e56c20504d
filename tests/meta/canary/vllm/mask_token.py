"""The places to be drafted hold token 0."""

import functools

from vllm.v1.spec_decode.dflash import DFlashProposer

propose = DFlashProposer.propose


@functools.wraps(propose)
def planted(self, *args, **kwargs):
    self.parallel_drafting_token_id = 0
    return propose(self, *args, **kwargs)


DFlashProposer.propose = planted
