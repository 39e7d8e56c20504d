"""Hypothesis strategies for what a clause asks of an engine: layer ids, prompts, batches, drafts.

Every example is JSON data, so it can be printed, saved, replayed by `--example` and pinned in an
expectation. Layer ids are outputs of zero-based decoder layers: legal ones lie in 0..depth - 1.

    >>> from hypothesis import given
    >>> @given(legal_ids(36, row_ids=[1, 9, 17, 25, 33]))
    ... def test_every_legal_configuration(ids): ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

__all__ = [
    "PROFILES",
    "acceptance_patterns",
    "batches",
    "duplicate_ids",
    "legal_ids",
    "odd_type_ids",
    "out_of_range_ids",
    "prompts",
    "register_profiles",
    "unordered_ids",
]

Ids = st.SearchStrategy[list[int]]

_SMALL: Final = 8
"""Most published drafts have at most this many taps."""
_BIG: Final = (2**31, 2**63)
"""Past any depth, and past what a 32-bit and a signed 64-bit index hold."""


def legal_ids(depth: int, row_ids: Sequence[int] = (), *, last: bool = True) -> Ids:
    """Legal configurations: unique, increasing, any size from 1 to `depth`.

    Biased to the edges of the target, to the row's own ids and to the neighbours of both (single
    ones, and the whole row moved by one); small sizes are likely, the full set is reached.

    Args:
        depth: number of decoder layers of the target, at least 1 (2 without the last).
        row_ids: the ids that the row's draft was trained with.
        last: whether the last layer, `depth - 1`, may be among them.

    >>> legal_ids(8, [1, 3, 5]).example()  # doctest: +SKIP
    [0, 3, 4]
    """
    end = depth if last else depth - 1
    layers = st.one_of(_near(depth, row_ids, end), st.integers(0, end - 1))
    shapes = [
        st.lists(layers, min_size=1, max_size=min(_SMALL, end), unique=True).map(sorted),
        st.lists(layers, min_size=1, max_size=end, unique=True).map(sorted),
        _complement(end),
    ]
    if moved := _moved(row_ids, end):
        shapes.append(st.sampled_from(moved))
    return st.one_of(shapes)


def unordered_ids(depth: int, row_ids: Sequence[int] = ()) -> Ids:
    """Legal ids in a wrong order: unique, in range, at least two, not increasing (depth >= 2).

    >>> unordered_ids(8, [1, 3, 5]).example()  # doctest: +SKIP
    [5, 3, 1]
    """
    ordered = legal_ids(depth, row_ids).filter(lambda ids: len(ids) > 1)
    return ordered.flatmap(st.permutations).filter(lambda ids: ids != sorted(ids))


def duplicate_ids(depth: int, row_ids: Sequence[int] = ()) -> Ids:
    """Non-decreasing ids in range, of which at least one stands there twice.

    >>> duplicate_ids(8, [1, 3, 5]).example()  # doctest: +SKIP
    [1, 3, 3]
    """

    def repeat(ids: list[int]) -> Ids:
        again = st.lists(st.sampled_from(ids), min_size=1, max_size=3)
        return again.map(lambda extra: sorted([*ids, *extra]))

    return legal_ids(depth, row_ids).flatmap(repeat)


def out_of_range_ids(depth: int, row_ids: Sequence[int] = ()) -> Ids:
    """Unique ids of which at least one is no layer of the target, the others legal, any order.

    The illegal ones are -1 (Python's last, a boundary's embeddings), -2, -depth, depth (a legal
    *boundary*), depth + 1, and numbers past a 32-bit and a 64-bit index.

    >>> out_of_range_ids(8, [1, 3, 5]).example()  # doctest: +SKIP
    [-1, 3, 5]
    """
    bad = list(dict.fromkeys((-1, depth, -2, depth + 1, -depth, *_BIG)))
    illegal = st.lists(st.sampled_from(bad), min_size=1, max_size=2, unique=True)
    none: Ids = st.just([])
    legal = st.one_of(none, legal_ids(depth, row_ids))
    return st.tuples(illegal, legal).flatmap(lambda two: st.permutations(two[0] + two[1]))


def odd_type_ids(depth: int, row_ids: Sequence[int] = ()) -> st.SearchStrategy[list[Any]]:
    """Legal ids of which exactly one has an odd type.

    It became a float (integral or not), a string, null, a list of its own, or, when it was 0 or
    1, a bool. An odd value that can be read as a number means the id that it stands for.

    >>> odd_type_ids(8, [1, 3, 5]).example()  # doctest: +SKIP
    [1, "3", 5]
    """

    def spoil(ids: list[int]) -> st.SearchStrategy[list[Any]]:
        def spoilt(index: int) -> st.SearchStrategy[list[Any]]:
            layer = ids[index]
            odd = [float(layer), layer + 0.5, str(layer), None, [layer]]
            if layer < 2:
                odd.append(bool(layer))
            return st.sampled_from(odd).map(lambda value: [*ids[:index], value, *ids[index + 1 :]])

        return st.integers(0, len(ids) - 1).flatmap(spoilt)

    return legal_ids(depth, row_ids).flatmap(spoil)


def prompts(
    vocab: int, min_size: int = 1, max_size: int = 40, *, mask_token_id: int | None = None
) -> Ids:
    """Prompts: token ids below `vocab`, never the mask token's.

    >>> prompts(512, 2, 4, mask_token_id=511).example()  # doctest: +SKIP
    [7, 7, 180]
    """
    tokens = st.integers(0, vocab - 1).filter(lambda token: token != mask_token_id)
    return st.lists(tokens, min_size=min_size, max_size=max_size)


def batches(
    vocab: int,
    min_size: int = 2,
    max_size: int = 4,
    *,
    longest: int = 40,
    mask_token_id: int | None = None,
) -> st.SearchStrategy[list[list[int]]]:
    """Batches of `min_size` to `max_size` different prompts of up to `longest` tokens.

    They differ, because a plane of another request can't be told from the right one otherwise.
    """
    one = prompts(vocab, 1, longest, mask_token_id=mask_token_id)
    return st.lists(one, min_size=min_size, max_size=max_size, unique_by=tuple)


def acceptance_patterns(drafts: int, max_size: int = 6) -> Ids:
    """How many drafts each verify step accepts, 0 to `drafts`, step by step, then over again.

    All, none, and mixtures; the extremes are likely, since counters break there first.

    >>> acceptance_patterns(7).example()  # doctest: +SKIP
    [0, 7, 3]
    """
    counts = st.one_of(st.sampled_from((drafts, 0)), st.integers(0, drafts))
    return st.lists(counts, min_size=1, max_size=max_size)


_COMMON: Final = settings(
    deadline=None,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
PROFILES: Final[Mapping[str, settings]] = {
    "ci": settings(_COMMON, derandomize=True, database=None, max_examples=50),
    "nightly": settings(_COMMON, derandomize=False, max_examples=500),
}
"""The Hypothesis profiles: `ci` derandomized, `nightly` with new examples every time.

Neither has Hypothesis's own deadline: an example runs an engine, whose deadlines are ours.
"""


def register_profiles() -> None:
    """Register `PROFILES` with Hypothesis, for `--hypothesis-profile` in tests."""
    for name, profile in PROFILES.items():
        settings.register_profile(name, profile)


def _near(depth: int, row_ids: Sequence[int], end: int) -> st.SearchStrategy[int]:
    """The edges of the target and the row's ids, each with its neighbours, below `end`."""
    marks = (0, *row_ids, depth - 1)
    around = (mark + step for step in (0, 1, -1) for mark in marks)
    return st.sampled_from(list(dict.fromkeys(layer for layer in around if 0 <= layer < end)))


def _moved(row_ids: Sequence[int], end: int) -> list[list[int]]:
    """The row's ids, and all of them one up and one down, as far as they are below `end`."""
    rows = [sorted({layer + step for layer in row_ids}) for step in (0, 1, -1)]
    return [row for row in rows if row and row[0] >= 0 and row[-1] < end]


def _complement(end: int) -> Ids:
    """Nearly all layers: random lists hardly ever get there, and every layer is legal at once."""
    absent = st.sets(st.integers(0, end - 1), max_size=min(2, end - 1))
    return absent.map(lambda gone: [layer for layer in range(end) if layer not in gone])
