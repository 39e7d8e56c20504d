from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from matrix import strategies

DEPTH = 12
ROW = (1, 5, 9)
ONCE = settings(max_examples=2000, derandomize=True, database=None, phases=[Phase.generate])

layers = given(st.integers(2, 64).flatmap(lambda depth: st.tuples(st.just(depth), ids_of(depth))))


def ids_of(depth):
    return st.fixed_dictionaries(
        {
            "legal": strategies.legal_ids(depth, [1]),
            "not_last": strategies.legal_ids(depth, [1], last=False),
            "unordered": strategies.unordered_ids(depth, [1]),
            "duplicate": strategies.duplicate_ids(depth, [1]),
            "outside": strategies.out_of_range_ids(depth, [1]),
            "odd": strategies.odd_type_ids(depth, [1]),
        }
    )


def in_range(ids, depth):
    return all(type(layer) is int and 0 <= layer < depth for layer in ids)


@layers
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_example_is_what_its_strategy_promises(drawn):
    depth, ids = drawn
    assert json.loads(json.dumps(ids)) == ids
    for name in ("legal", "not_last"):
        assert 1 <= len(ids[name]) <= depth
        assert in_range(ids[name], depth)
        assert ids[name] == sorted(set(ids[name]))
    assert depth - 1 not in ids["not_last"]
    assert in_range(ids["unordered"], depth)
    assert len(set(ids["unordered"])) == len(ids["unordered"]) > 1
    assert ids["unordered"] != sorted(ids["unordered"])
    assert in_range(ids["duplicate"], depth)
    assert ids["duplicate"] == sorted(ids["duplicate"])
    assert len(set(ids["duplicate"])) < len(ids["duplicate"])
    assert all(type(layer) is int for layer in ids["outside"])
    assert not in_range(ids["outside"], depth)
    assert len(set(ids["outside"])) == len(ids["outside"])
    odd = [value for value in ids["odd"] if type(value) is not int]
    assert len(odd) == 1
    assert in_range([value for value in ids["odd"] if type(value) is int], depth)


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(lambda ids: ids == [0], id="first layer alone"),
        pytest.param(lambda ids: ids == [DEPTH - 1], id="last layer alone"),
        pytest.param(lambda ids: ids == list(range(DEPTH)), id="every layer"),
        pytest.param(lambda ids: ids == list(ROW), id="the row's own"),
        pytest.param(lambda ids: ids == [2, 6, 10], id="the row's own, one up"),
        pytest.param(lambda ids: {0, DEPTH - 1} <= set(ids), id="first and last"),
        pytest.param(lambda ids: len(ids) == DEPTH - 1, id="all but one"),
        pytest.param(lambda ids: 7 in ids, id="a layer far from every mark"),
    ],
)
def test_legal_ids_reach(wanted):
    assert wanted(find(strategies.legal_ids(DEPTH, ROW), wanted, settings=ONCE))


def test_last_layer_is_never_drawn_when_excluded():
    without = strategies.legal_ids(DEPTH, ROW, last=False)
    with pytest.raises(NoSuchExample):
        find(without, lambda ids: DEPTH - 1 in ids, settings=settings(ONCE, max_examples=300))
    assert len(find(without, lambda ids: len(ids) == DEPTH - 1, settings=ONCE)) == DEPTH - 1


@pytest.mark.parametrize("layer", [-1, -2, -DEPTH, DEPTH, DEPTH + 1, 2**31, 2**63])
def test_out_of_range_ids_reach(layer):
    outside = strategies.out_of_range_ids(DEPTH, ROW)
    assert layer in find(outside, lambda ids: layer in ids and len(ids) > 1, settings=ONCE)
    assert find(outside, lambda ids: ids == [layer], settings=ONCE) == [layer]


@pytest.mark.parametrize("kind", [bool, float, str, type(None), list])
def test_odd_type_ids_reach(kind):
    drawn = find(
        strategies.odd_type_ids(DEPTH, ROW),
        lambda ids: any(type(value) is kind for value in ids),
        settings=ONCE,
    )
    assert any(type(value) is kind for value in drawn)


def test_small_configurations_are_likely():
    sizes = []

    @given(strategies.legal_ids(60, ROW))
    @settings(max_examples=300, derandomize=True, database=None, deadline=None)
    def collect(ids):
        sizes.append(len(ids))

    collect()
    assert sum(size <= 8 for size in sizes) > len(sizes) / 3


@given(st.data())
def test_prompts_keep_their_bounds_and_avoid_the_mask_token(data):
    prompt = data.draw(strategies.prompts(8, 2, 5, mask_token_id=3))
    assert 2 <= len(prompt) <= 5
    assert set(prompt) <= {0, 1, 2, 4, 5, 6, 7}


def test_prompts_reach_the_edges_of_the_vocabulary():
    reached = find(strategies.prompts(512), lambda ids: {0, 511} <= set(ids), settings=ONCE)
    assert {0, 511} <= set(reached)


@given(strategies.batches(512, 2, 4, longest=6, mask_token_id=511))
def test_prompts_of_a_batch_differ(batch):
    assert 2 <= len(batch) <= 4
    assert len({tuple(prompt) for prompt in batch}) == len(batch)
    assert all(1 <= len(prompt) <= 6 and 511 not in prompt for prompt in batch)


@given(strategies.acceptance_patterns(7))
def test_acceptance_patterns_stay_within_the_drafts(pattern):
    assert 1 <= len(pattern) <= 6
    assert all(0 <= accepted <= 7 for accepted in pattern)


@pytest.mark.parametrize("pattern", [[7], [0], [0, 7], [3]])
def test_acceptance_patterns_reach_all_none_and_some(pattern):
    reached = find(strategies.acceptance_patterns(7), lambda drawn: drawn == pattern, settings=ONCE)
    assert reached == pattern


def test_profiles_differ_in_what_they_promise():
    strategies.register_profiles()
    ci, nightly = settings.get_profile("ci"), settings.get_profile("nightly")
    assert ci.derandomize
    assert not nightly.derandomize
    assert ci.deadline is nightly.deadline is None
    assert nightly.max_examples > ci.max_examples
