"""The start works, and the first draft dies (as in vLLM #48113)."""

import dflash.model


def planted(self, *args, **kwargs):
    raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (9x192 and 256x64)")


dflash.model.DFlashDraftModel.forward = planted
