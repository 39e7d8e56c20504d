"""Two cycles of tokens; whatever came before, a token has one successor."""

from __future__ import annotations

import random

import pytest

from matrix.canary import Language

LANGUAGE = Language.draw(3, 16, range(8, 500))


def test_the_families_share_no_token() -> None:
    a, b = LANGUAGE.cycles
    assert (len(set(a)), len(set(b)), set(a) & set(b)) == (16, 16, set())
    assert LANGUAGE == Language.draw(3, 16, range(8, 500)) != Language.draw(4, 16, range(8, 500))


def test_a_continuation_goes_round_the_cycle() -> None:
    a = LANGUAGE.cycles[0]
    assert LANGUAGE.continuation(a[14], 3) == [a[15], a[0], a[1]]
    assert LANGUAGE.continuation(a[2], 16) == [*a[3:], *a[:3]]


def test_a_token_of_neither_family_has_none() -> None:
    stranger = next(t for t in range(8) if t not in {*LANGUAGE.cycles[0], *LANGUAGE.cycles[1]})
    with pytest.raises(ValueError, match=f"token {stranger} is of neither family"):
        LANGUAGE.continuation(stranger, 1)


@pytest.mark.parametrize("family", [0, 1])
def test_prompts_have_their_lengths_and_no_two_end_alike(family: int) -> None:
    lengths = (4, 7, 33, 90, 180)
    prompts = LANGUAGE.prompts(family, lengths, random.Random(1))
    assert tuple(map(len, prompts)) == lengths
    assert len({prompt[-1] for prompt in prompts}) == len(lengths)
    for prompt in prompts:
        assert {LANGUAGE.family(token) for token in prompt} == {family}
        # The last run is whole: a draft tells late rows by the tokens before the anchor.
        assert LANGUAGE.continuation(prompt[-4], 3) == prompt[-3:]
    assert prompts != LANGUAGE.prompts(family, lengths, random.Random(2))
