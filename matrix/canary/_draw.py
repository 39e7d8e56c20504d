"""Draws the code book: for each fault, how many of a step's drafts are accepted, by family.

`python -m matrix.canary._draw FILE` writes the picture that docs/canary.md shows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from matrix.canary._book import BOOK, CORRECT, DRAFTS
from matrix.canary._language import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matrix.canary._book import Word

__all__ = ["draw_book"]

_CELL: Final = 16
_NAMES: Final = 150
_GAP: Final = 28
_TOP: Final = 26
_ROW: Final = 22


def draw_book() -> str:
    """The book as one SVG picture, readable on light and dark ground."""
    rows: list[tuple[str, Word]] = [("correct", CORRECT), *((n, e.word) for n, e in BOOK.items())]
    width = _NAMES + 2 * DRAFTS * _CELL + _GAP + 8
    height = _TOP + _ROW * len(rows) + 6
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" font-family="sans-serif" font-size="12">',
        "<title>Drafts accepted in each step, by fault and prompt family</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for family, name in enumerate(FAMILIES):
        lines.append(f'<text x="{_left(family)}" y="16" fill="#333333">family {name}</text>')
    for number, (name, word) in enumerate(rows):
        y = _TOP + _ROW * number
        lines.append(f'<text x="4" y="{y + 13}" fill="#111111">{escape(name)}</text>')
        lines += [bar for family in (0, 1) for bar in _bars(family, word[family], y)]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _left(family: int) -> int:
    return _NAMES + family * (DRAFTS * _CELL + _GAP)


def _bars(family: int, accepted: int, y: int) -> Iterator[str]:
    """One box for each drafted token: full for an accepted one."""
    for at in range(DRAFTS):
        fill = "#2a7d4f" if at < accepted else "#e3e3e3"
        x = _left(family) + at * _CELL
        yield f'<rect x="{x}" y="{y + 2}" width="{_CELL - 3}" height="13" rx="2" fill="{fill}"/>'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw_book())
