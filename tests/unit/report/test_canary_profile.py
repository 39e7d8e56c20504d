from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from matrix.report._canary import profile_of

METRICS: dict[str, Any] = {
    "profile": {"A": [64, 63, 64, 64, 60, 0, 0], "B": [56, 56, 0, 0, 0, 0, 0]},
    "steps": {"A": 64, "B": 56},
    "counts": {"A": {"10": 1, "5": 60, "4": 4}, "B": {"2": 56}},
    "book": {"correct": [7, 7], "tap-shift-1": [5, 2], "tap-order": [1, 3]},
    "verdict": "tap-shift-1",
    "block": 8,
}


def test_a_profile_is_shares_of_steps_beside_the_book() -> None:
    profile = profile_of(METRICS)
    assert profile is not None
    first, second = profile.families
    assert (first.name, first.steps) == ("A", 64)
    assert first.rates == [1.0, 0.9844, 1.0, 1.0, 0.9375, 0.0, 0.0]
    assert first.counts == [[4, 4], [5, 60], [10, 1]], "as numbers, not as words"
    assert second.rates[:3] == [1.0, 1.0, 0.0]
    assert [(w.name, w.word, w.decoded) for w in profile.book] == [
        ("correct", [7, 7], False),
        ("tap-shift-1", [5, 2], True),
        ("tap-order", [1, 3], False),
    ]
    assert profile.verdict == "tap-shift-1"


def test_without_a_word_that_fits_nothing_is_decoded() -> None:
    profile = profile_of({**METRICS, "verdict": "unknown", "counts": None})
    assert profile is not None
    assert not any(word.decoded for word in profile.book)
    assert profile.families[0].counts == []


@pytest.mark.parametrize("name", ["profile", "steps", "book"])
@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_metrics_of_another_form_are_no_profile(name: str, value: object) -> None:
    assert profile_of({**METRICS, name: value}) is None


def test_the_profile_of_output_counters_is_none() -> None:
    assert profile_of({"drafted": 990, "accepted": 37, "profile": [0.1, 0.05]}) is None


def test_no_steps_at_all() -> None:
    profile = profile_of({**METRICS, "steps": {}})
    assert profile is not None
    assert profile.families[0].rates == [0.0] * 7


anything = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.fixed_dictionaries(dict.fromkeys(METRICS, anything)))
def test_no_journal_breaks_a_profile(metrics: dict[str, Any]) -> None:
    profile = profile_of(metrics)
    for family in profile.families if profile else ():
        assert all(0 <= rate <= 1 for rate in family.rates)
