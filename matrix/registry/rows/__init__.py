"""The built-in rows, by drafting method and family of the target.

A fact stands here only if a config of that checkpoint, or a named public report, states it; what is
not known is left blank. `confidence` says which of the two it was. Pairs that lack an architecture,
a depth or ids are no rows; docs/pairs.md lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matrix.registry.rows import (
    canaries,
    dflash2,
    dflash_multimodal,
    dflash_qwen3,
    dflash_qwen3_5,
    dflash_text,
    dspark_others,
    dspark_qwen,
    related,
    synthetic,
    templates,
)

if TYPE_CHECKING:
    from matrix.registry._pair import Pair

__all__ = ["PAIRS"]

PAIRS: Final[tuple[Pair, ...]] = (
    *dflash_qwen3.PAIRS,
    *dflash_qwen3_5.PAIRS,
    *dflash_multimodal.PAIRS,
    *dflash_text.PAIRS,
    *dflash2.PAIRS,
    *dspark_qwen.PAIRS,
    *dspark_others.PAIRS,
    *related.PAIRS,
    *templates.PAIRS,
    *synthetic.PAIRS,
    *canaries.PAIRS,
)
"""Every built-in row, in the order in which they are shown."""
