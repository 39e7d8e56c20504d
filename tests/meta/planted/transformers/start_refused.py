"""The draft is refused at start."""

import dflash.model


def planted(self, config):
    raise ValueError("this draft is not supported for now")


dflash.model.DFlashDraftModel.__init__ = planted
