"""The draft takes the rows of rejected tokens into its context."""

import functools

from vllm.v1.spec_decode.dflash import DFlashProposer

propose = DFlashProposer.propose


@functools.wraps(propose)
def planted(self, *args, **kwargs):
    return propose(self, *args, **kwargs | {"num_rejected_tokens_gpu": None})


DFlashProposer.propose = planted
