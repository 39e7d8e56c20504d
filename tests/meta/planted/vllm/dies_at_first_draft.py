"""The start works, and the first draft dies (as in vLLM #48113)."""

import functools

from vllm.v1.spec_decode.dflash import DFlashProposer

propose = DFlashProposer.propose


@functools.wraps(propose)
def planted(self, *args, **kwargs):
    raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (9x192 and 256x64)")


DFlashProposer.propose = planted
