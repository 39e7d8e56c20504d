"""A canary's acceptance profile and its code book, as the report draws them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from matrix.report._words import short

__all__ = ["Family", "Profile", "Word", "profile_of"]

_MOST: Final = 64
"""Draft positions, words and kinds of steps that are drawn; a canary has about eight of each."""


class Family(msgspec.Struct, frozen=True):
    """One family of prompts."""

    name: str
    rates: list[float]
    """For each draft position, accepted / steps; 0 to 1."""
    steps: int
    counts: list[list[int]]
    """`[accepted in a step, number of such steps]`, fewest accepted first."""


class Word(msgspec.Struct, frozen=True):
    """One word of the code book: how many drafts of a step are accepted, for each family."""

    name: str
    word: list[int]
    decoded: bool
    """Whether the verdict is this word."""


class Profile(msgspec.Struct, frozen=True):
    """A canary's profile beside its code book."""

    families: list[Family]
    book: list[Word]
    verdict: str


def profile_of(metrics: Mapping[str, Any]) -> Profile | None:
    """The profile in a cell's metrics; `None` where there is none, or it has another form.

    Args:
        metrics: `profile` and `steps` by family, `counts` of steps by accepted drafts, `book` of
            words and the `verdict`.
    """
    profile, steps, book = (metrics.get(name) for name in ("profile", "steps", "book"))
    if not (isinstance(profile, dict) and isinstance(steps, dict) and isinstance(book, dict)):
        return None
    counts = metrics.get("counts")
    families = [
        _family(name, values, steps.get(name), counts.get(name) if isinstance(counts, dict) else {})
        for name, values in profile.items()
    ]
    verdict = str(metrics.get("verdict", "unknown"))
    words = [
        Word(short(name), [_whole(k) for k in word[:_MOST]], name == verdict)
        for name, word in book.items()
        if isinstance(word, list)
    ]
    if not families or not words:
        return None
    return Profile(families[:_MOST], words[:_MOST], short(verdict))


def _family(name: str, accepted: Any, steps: Any, counts: Any) -> Family:
    drafts = _whole(steps)
    values = accepted[:_MOST] if isinstance(accepted, list) else []
    kinds = counts.items() if isinstance(counts, dict) else ()
    pairs = sorted([_whole(kind), _whole(number)] for kind, number in kinds)
    return Family(
        short(name),
        [round(min(_whole(value) / drafts, 1.0), 4) if drafts else 0.0 for value in values],
        drafts,
        pairs[:_MOST],
    )


def _whole(value: Any) -> int:
    """A count; 0 for what is none. Keys of JSON objects are strings."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return int(number) if math.isfinite(number) and number > 0 else 0
