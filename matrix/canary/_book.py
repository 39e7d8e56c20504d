"""The code book: how many tokens a canary's draft gets right under each fault it was trained on.

A code word is a pair of lengths, one a prompt family. Any two words differ by at least 2 in one of
the lengths, zero is never used (any garbage gives it), and the whole block is `correct`, which is
no fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from matrix.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["APART", "BLOCK", "BOOK", "CORRECT", "DRAFTS", "Entry", "Word", "book_table", "look_up"]

Word = tuple[int, int]
"""Drafted tokens that are right, on family A and on family B."""

BLOCK: Final = 10
"""A canary's block, the anchor included: 9 drafts leave 16 words that are 2 apart."""
DRAFTS: Final = BLOCK - 1
APART: Final = 2
CORRECT: Final[Word] = (DRAFTS, DRAFTS)


@dataclass(frozen=True)
class Entry:
    """One fault of the book."""

    name: str
    """Its name in verdicts: `one-plane-low`."""
    label: Fault
    word: Word
    sentence: str
    """What the draft sees, with what it may take it for."""


_ENTRIES: Final = (
    Entry("ids-low", Fault.TAP_SHIFT_BEFORE, (3, 1), "every plane is the layer's before it"),
    Entry("ids-high", Fault.TAP_SHIFT_AFTER, (5, 7), "every plane is the layer's behind it"),
    Entry(
        "one-plane-low",
        Fault.TAP_SHIFT_BEFORE,
        (5, 5),
        "one plane is the layer's before it",
    ),
    Entry(
        "one-plane-high",
        Fault.TAP_SHIFT_AFTER,
        (7, 3),
        "one plane is the layer's behind it",
    ),
    Entry("reversed", Fault.TAP_ORDER, (7, 1), "the planes come in the reverse order"),
    Entry(
        "residual-missing",
        Fault.RESIDUAL_MISSING,
        (1, 7),
        "every plane is a branch without the residual stream",
    ),
    Entry(
        "residual-only",
        Fault.RESIDUAL_ONLY,
        (3, 5),
        "every plane is the residual stream without the last branch",
    ),
    Entry(
        "next-norm",
        Fault.NORM_APPLIED,
        (1, 1),
        "every plane went through the norm of the layer behind it",
    ),
    Entry("repeated", Fault.PLANE_REPEATED, (1, 3), "one plane stands in another's place"),
    Entry("plane-zero", Fault.PLANE_ZERO, (7, 7), "one plane is zero"),
    Entry("rows-late", Fault.ROW_SHIFT, (7, 5), "every row is the one of the token before it"),
    Entry(
        "foreign",
        Fault.PLANE_FOREIGN,
        (3, 3),
        "the planes are those of other tokens: another request's, or an earlier forward's",
    ),
    Entry(
        "draft-norm",
        Fault.DRAFT_DIFFERS,
        (1, 5),
        "a layer of the draft norms with another layer's weights",
    ),
    Entry(
        "draft-causal",
        Fault.DRAFT_DIFFERS,
        (5, 1),
        "the draft attends causally inside its block where it should see all of it",
    ),
    Entry(
        "mask-token",
        Fault.DRAFT_DIFFERS,
        (5, 3),
        "the places to be drafted hold another token than the mask",
    ),
)
BOOK: Final[Mapping[str, Entry]] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
"""Every fault with a word of its own, by name."""


def look_up(word: Word | None) -> Entry | None:
    """The fault that has this word; `None` for a word of no fault, or none at all."""
    return next((entry for entry in BOOK.values() if entry.word == word), None)


def book_table() -> dict[str, list[int]]:
    """The book as data, `correct` first."""
    return {"correct": list(CORRECT)} | {name: list(e.word) for name, e in BOOK.items()}
