from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix.report._plot import HEIGHT, plots


def test_asked_and_matched_are_marked() -> None:
    (plot,) = plots({"planes": [{"asked": 3, "matched": 2, "distances": [1.0, 0.1, 1e-6, 1e-3]}]})
    assert (plot.low, plot.high) == (-6, 0)
    assert [bar.role for bar in plot.bars] == ["other", "other", "matched", "asked"]
    assert [bar.height for bar in plot.bars] == [80.0, 66.7, 2, 40.0]
    assert all(math.isclose(bar.y + bar.height, HEIGHT) for bar in plot.bars)
    assert plot.bars[2].title == "layer 2: 1e-06 (matched)"
    assert plot.title == "plane 0: layer 3 asked, layer 2 matched"
    (right,) = plots({"planes": [{"asked": 1, "matched": 1, "distances": [0.5, 1e-7]}]})
    assert right.bars[1].role == "right"


def test_distances_that_a_journal_holds_as_strings() -> None:
    (plot,) = plots({"planes": [{"asked": 0, "distances": ["inf", "nan", 0.0, 1e-3]}]})
    assert [bar.height for bar in plot.bars] == [80.0, 80.0, 2, 2]


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
    assert plots(metrics) == []


junk = st.none() | st.integers() | st.floats() | st.text() | st.lists(st.floats(), max_size=3)


@given(st.lists(st.dictionaries(st.sampled_from(["asked", "matched", "distances"]), junk)))
def test_no_journal_breaks_a_plot(planes: list[dict[str, object]]) -> None:
    for plot in plots({"planes": planes}):
        assert all(0 < bar.height <= HEIGHT for bar in plot.bars)
