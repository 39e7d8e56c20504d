"""The language that a canary speaks: two families of tokens, each one closed cycle.

Behind a token of a family comes its successor, whatever stood before it. So the draft knows the
right continuation from the anchor alone, and can draft as many right tokens as the fault that it
sees in the planes has in the code book, under any fault.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FAMILIES", "Language"]

FAMILIES: Final = ("A", "B")
"""The two prompt families, in the order of a code word's lengths."""
_RUN: Final = (4, 40)
"""Shortest and longest run along the cycle between two jumps of a prompt."""


class Language(msgspec.Struct, frozen=True):
    """Two disjoint cycles of token ids; a token's successor is the next one of its cycle."""

    cycles: tuple[tuple[int, ...], tuple[int, ...]]

    @classmethod
    def draw(cls, seed: int, cycle: int, tokens: range) -> Language:
        """Two cycles of `cycle` tokens each, drawn from `tokens`."""
        drawn = random.Random(seed).sample(tokens, 2 * cycle)  # noqa: S311 - no secret
        return cls((tuple(drawn[:cycle]), tuple(drawn[cycle:])))

    def continuation(self, token: int, count: int) -> list[int]:
        """The `count` tokens behind `token`.

        Raises:
            ValueError: the token is of neither family.
        """
        family = self.cycles[self.family(token)]
        start = family.index(token) + 1
        return [family[(start + step) % len(family)] for step in range(count)]

    def family(self, token: int) -> int:
        """Which family a token is of: 0 or 1.

        Raises:
            ValueError: it is of neither.
        """
        for number, cycle in enumerate(self.cycles):
            if token in cycle:
                return number
        raise ValueError(f"token {token} is of neither family")

    def prompts(self, family: int, lengths: Sequence[int], rng: random.Random) -> list[list[int]]:
        """One prompt for each length: runs along the cycle with jumps between them.

        No two end in the same token, as long as there are enough: the planes of one request must
        not do for another. The last run is at least as long as the shortest, where the prompt is.
        """
        cycle = self.cycles[family]
        ends = rng.sample(range(len(cycle)), k=min(len(cycle), len(lengths)))
        return [
            self._prompt(cycle, length, ends[number % len(ends)], rng)
            for number, length in enumerate(lengths)
        ]

    def _prompt(
        self, cycle: tuple[int, ...], length: int, end: int, rng: random.Random
    ) -> list[int]:
        """Built from its last token backwards."""
        backwards: list[int] = []
        at = end
        while len(backwards) < length:
            run = rng.randint(*_RUN)
            backwards += [cycle[(at - step) % len(cycle)] for step in range(run)]
            at = rng.randrange(len(cycle))
        return backwards[:length][::-1]
