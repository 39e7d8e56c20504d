"""From accepted drafts to a verdict.

Words are 2 apart, so that steps which differ from the others make a verdict `unknown`, never another
word: a fault needs nine of ten wrong steps, `correct` all steps. Counts that hold no steps (a server's
totals, perhaps moved by others) say `correct` or `not`, nothing more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from matrix.canary._book import BOOK, DRAFTS, Entry, Word, book_table, look_up
from matrix.canary._language import FAMILIES
from matrix.faults import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["FEWEST", "Observed", "Reading", "Totals", "read", "read_totals"]

FEWEST: Final = 4
"""Whole steps of a family without which nothing is read."""
AGREE: Final = 0.9
"""Share of a family's steps that must accept what a fault's word says: drafts that were trained to
err do so nearly always. For `correct` it is all of them."""

_Counts = tuple[Counter[int], Counter[int]]
"""By family: accepted drafts -> steps."""


@dataclass(frozen=True)
class Observed:
    """One request: accepted drafts of each of its steps that drafted a whole block, in order."""

    family: int
    accepted: tuple[int, ...]


@dataclass(frozen=True)
class Totals:
    """What one family's requests counted together: steps, and accepted drafts by position."""

    family: int
    steps: int
    accepted_at: tuple[int, ...]


@dataclass(frozen=True)
class Reading:
    """A verdict, and what it was read from.

    `verdict` is `correct`, `not` (it isn't, and more can't be said), `unknown`, or a name of the
    book; `phase` is `decode` where just the step behind each prefill was right, `batch` where others
    were.
    """

    verdict: str
    why: str
    counts: tuple[dict[int, int], dict[int, int]]
    """By family: accepted drafts -> steps."""
    phase: Phase = Phase.ALL

    @property
    def entry(self) -> Entry | None:
        """The fault of the book, if the verdict is one."""
        return BOOK.get(self.verdict)

    def metrics(self) -> dict[str, Any]:
        """The profile against the book, as the journal holds it."""
        return {
            "verdict": self.verdict,
            "block": DRAFTS + 1,
            "steps": {name: sum(c.values()) for name, c in zip(FAMILIES, self.counts, strict=True)},
            "counts": {
                name: {str(k): c[k] for k in sorted(c)}
                for name, c in zip(FAMILIES, self.counts, strict=True)
            },
            "profile": {
                name: [sum(n for k, n in c.items() if k > at) for at in range(DRAFTS)]
                for name, c in zip(FAMILIES, self.counts, strict=True)
            },
            "book": book_table(),
        }


def read(requests: Sequence[Observed]) -> Reading:
    """The verdict on requests of both families.

    Steps in which all was right are set aside: a fault may begin behind the prefill, or reach some
    of a batch only.
    """
    every = _counts(requests)
    shown = dict(every[0]), dict(every[1])
    if few := _few(every):
        return Reading("unknown", f"too few whole steps on family {few}", shown)
    wrong = _counts(requests, lambda step, accepted: accepted < DRAFTS)
    if not any(wrong):
        return Reading("correct", "every step accepted its whole block", shown)
    if few := _few(wrong):
        return Reading("unknown", f"too few wrong steps on family {few} to be read", shown)
    word = _word(wrong)
    if (entry := look_up(word)) is None:
        return Reading("unknown", _unread(word, every), shown)
    if wrong == every:
        return Reading(entry.name, _says(entry), shown)
    if wrong == _counts(requests, lambda step, accepted: step > 0):
        why = f"right behind the prefill, then {_says(entry)}"
        return Reading(entry.name, why, shown, Phase.DECODE)
    of = f"{sum(c.total() for c in wrong)} of {sum(c.total() for c in every)} steps"
    return Reading(entry.name, f"{of}: {_says(entry)}", shown, Phase.BATCH)


def read_totals(families: Sequence[Totals]) -> Reading:
    """What totals say: `correct` when every step accepted its whole block, else `not`."""
    counts: tuple[dict[int, int], dict[int, int]] = ({}, {})
    right = True
    for totals in families:
        at = (*totals.accepted_at, 0)
        ended = [(at[k - 1] if k else totals.steps) - at[k] for k in range(len(at))]
        counts[totals.family].update({k: n for k, n in enumerate(ended) if n})
        right &= totals.steps >= FEWEST and set(totals.accepted_at) == {totals.steps}
    if right:
        return Reading("correct", "every step accepted its whole block", counts)
    return Reading("not", "not every draft was accepted; totals alone name no fault", counts)


def _few(counts: _Counts) -> str:
    """The families that have too few steps to be read."""
    few = (name for name, c in zip(FAMILIES, counts, strict=True) if c.total() < FEWEST)
    return " and ".join(few)


def _counts(
    requests: Sequence[Observed], wanted: Callable[[int, int], bool] = lambda step, accepted: True
) -> _Counts:
    """By family, of the steps that are wanted by their number in the request and what they accepted."""
    counts: _Counts = (Counter(), Counter())
    for request in requests:
        steps = enumerate(request.accepted)
        counts[request.family].update(k for step, k in steps if wanted(step, k))
    return counts


def _word(counts: _Counts) -> Word | None:
    """The word, if the steps of each family agree on a length."""
    a, b = (_agreed(family) for family in counts)
    return None if a is None or b is None else (a, b)


def _agreed(counts: Counter[int]) -> int | None:
    """The length that at least `AGREE` of the steps have."""
    (length, steps), *_ = counts.most_common(1) or [(0, 0)]
    return length if steps and steps >= AGREE * counts.total() else None


def _says(entry: Entry) -> str:
    a, b = entry.word
    return f"steps accepted {a} on family A and {b} on B: {entry.sentence}"


def _unread(word: Word | None, counts: _Counts) -> str:
    if word == (0, 0):
        return "nothing was accepted: any garbage gives that"
    if word is not None:
        return f"steps accepted {word[0]} on family A and {word[1]} on B: no word of the book"
    seen = [", ".join(f"{k} ({c[k]} steps)" for k in sorted(c)) for c in counts]
    return f"steps differ: accepted {seen[0]} on family A, {seen[1]} on B"
