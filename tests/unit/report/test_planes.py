from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from matrix.report._planes import planes_of


def distances(levels: str) -> list[float | None]:
    """As the page's script reads them."""
    return [None if c == " " else 10 ** ((ord(c) - 111) / 10) for c in levels]


def test_a_plane_keeps_what_was_asked_for_and_what_matched() -> None:
    (plane,) = planes_of(
        {"planes": [{"asked": 3, "matched": 2, "distances": [1.0, 0.1, 1.234e-6, 1e-3]}]}
    )
    assert (plane.asked, plane.to_asked) == (3, 1e-3)
    assert (plane.matched, plane.to_matched) == (2, 1.23e-6)
    assert plane.levels == "oe4Q"
    assert distances(plane.levels) == pytest.approx([1.0, 0.1, 1.234e-6, 1e-3], rel=0.13)


def test_distances_that_a_journal_holds_as_strings() -> None:
    (plane,) = planes_of({"planes": [{"asked": 0, "distances": ["inf", "nan", 0.0, 1e-3, -1]}]})
    assert plane.levels == "  !Q "
    assert (plane.matched, plane.to_asked, plane.to_matched) == (None, None, None)


def test_planes_of_several_depths_are_all_kept() -> None:
    planes = planes_of(
        {"planes": [{"distances": [0.1]}, {"distances": [0.1, 1]}, {"distances": 7}]}
    )
    assert [plane.levels for plane in planes] == ["e", "eo"]


@pytest.mark.parametrize(
    "metrics",
    [
        {},
        {"planes": None},
        {"planes": "text"},
        {"planes": [1, None, "x", [], {}]},
        {"planes": [{"distances": []}, {"distances": [0.0]}, {"distances": ["inf", None, {}]}]},
    ],
)
def test_other_forms_are_left_out(metrics: dict[str, object]) -> None:
    assert planes_of(metrics) == []


words = st.sampled_from(["", "inf", "nan", "x", "-3"])
junk = st.none() | st.integers() | st.floats() | words | st.lists(st.floats(), max_size=3)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.dictionaries(st.sampled_from(["asked", "matched", "distances"]), junk)))
def test_no_journal_breaks_a_plot(planes: list[dict[str, object]]) -> None:
    for plane in planes_of({"planes": planes}):
        assert plane.levels.isascii()
        assert plane.levels.isprintable()
        assert any(plane.levels)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.floats(1e-7, 30), min_size=1))
def test_a_level_is_within_a_tenth_of_a_decade(given: list[float]) -> None:
    (plane,) = planes_of({"planes": [{"distances": given}]})
    for wanted, shown in zip(given, distances(plane.levels), strict=True):
        assert shown is not None
        assert abs(math.log10(shown / wanted)) <= 0.0501
