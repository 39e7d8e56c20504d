"""Text from engines, models and users, made safe and short enough to be shown."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from matrix.results import one_line

__all__ = ["LONGEST", "cut", "short"]

LONGEST: Final = 20_000
"""Characters of one value on a cell's page; the journal has the rest."""

_LINE: Final = 600
"""Characters of what stands in a line or a table."""


@lru_cache(maxsize=8192)
def short(text: str) -> str:
    """`text` on one line, as long as a line of a table may be."""
    return cut(one_line(text[: 2 * LONGEST]), _LINE)


def cut(text: str, longest: int = LONGEST) -> str:
    """`text`, or its beginning and how much is left out."""
    left_out = len(text) - longest
    return text if left_out <= 0 else f"{text[:longest]}... ({left_out} more characters)"
