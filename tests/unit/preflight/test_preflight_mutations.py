"""Good configs, changed at random: an answer or one clear line, never a stack trace."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest
from config_samples import GOOD, configs, put
from hypothesis import given, settings
from hypothesis import strategies as st

from matrix.errors import UsageError
from matrix.layouts import read
from matrix.preflight import Side, examine, judge
from matrix.preflight._new import row

PAIRS = {name: configs(name) for name in GOOD}
# Escapes, quotes, other planes, a lone surrogate: what a terminal or TOML would stumble over.
TEXT = st.text('ab."\\\n\x1b\x7f\u2028\ud800\U0001f600', max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), 1 << 63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OUTCOMES = {"pass", "fail", "warn", "skip"}


def places(config: dict[str, Any], prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in config.items():
        found.append((*prefix, key))
        if isinstance(value, dict):
            found += places(value, (*prefix, key))
    return found


def table(config: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any] | None:
    here: Any = config
    for key in path[:-1]:
        here = here.get(key)
        if not isinstance(here, dict):
            return None
    return here if path[-1] in here else None


@st.composite
def mutated(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A committed pair with keys of either side deleted, moved, retyped, renamed or shifted."""
    pair = copy.deepcopy(PAIRS[draw(st.sampled_from(GOOD))])
    for _ in range(draw(st.integers(1, 4))):
        config = pair[draw(st.sampled_from((1, 1, 0)))]
        path = draw(st.sampled_from(places(config) or [("gone",)]))
        home = table(config, path)
        if home is None:
            continue
        value = home[path[-1]]
        match draw(st.sampled_from(("delete", "move", "retype", "shift", "rename"))):
            case "delete":
                del home[path[-1]]
            case "move":
                del home[path[-1]]
                tables = [config, *(v for v in config.values() if isinstance(v, dict))]
                draw(st.sampled_from(tables))[path[-1]] = value
            case "retype":
                home[path[-1]] = draw(JUNK)
            case "rename":
                del home[path[-1]]
                home[draw(st.sampled_from(places(config) or [path]))[-1]] = value
            case "shift":
                home[path[-1]] = shift(value, draw(st.integers(-3, 3)))
    return pair


def shift(value: Any, by: int) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | list):
        return value
    return [shift(item, by) for item in value] if isinstance(value, list) else value + by


@given(mutated(), st.sampled_from((None, "vllm", "sglang", "transformers")))
@settings(max_examples=250, derandomize=True, database=None, deadline=None)
def test_a_mutated_pair_gets_an_answer_or_one_line(
    pair: tuple[dict[str, Any], dict[str, Any]], engine: str | None
) -> None:
    target, draft = pair
    sides = Side("target", target), Side("draft", draft)
    try:
        result = judge(examine(*sides, engine=engine))
    except UsageError as error:
        refused = str(error)
    else:
        refused = None
    if refused is not None:
        assert len(refused) < 4000
        assert "\n" not in refused
        return
    assert {judgement.outcome for judgement in result.judgements} <= OUTCOMES
    assert all(judgement.message for judgement in result.judgements)
    shown = result.as_json()
    assert json.loads(json.dumps(shown)) == shown
    assert all(line.isprintable() for line in result.as_text().split("\n"))
    try:
        written = row(result.pair, {})
    except UsageError:
        return
    # What becomes a row is what the one resolver reads.
    assert f"target_layer_ids = {list(read(draft).ids or ())}" in written


@given(mutated())
@settings(max_examples=150, derandomize=True, database=None, deadline=None)
def test_what_passes_has_planes_that_fit(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """No pair passes whose planes don't fit the fc that an engine builds from its config."""
    target, draft = pair
    try:
        result = judge(examine(Side("target", target), Side("draft", draft), engine="vllm"))
    except UsageError:
        return
    if result.failed or not result.pair.said.own or result.pair.said.method == "eagle3":
        return
    ids, depth = result.pair.ids, result.pair.facts.depth
    assert ids
    assert depth is not None
    assert list(ids) == sorted(set(ids))
    assert 0 <= ids[0] <= ids[-1] < depth
    for reading in result.pair.readings:
        assert reading.ids in (ids, None)
    width = draft.get("target_hidden_size") or result.pair.body("hidden_size")
    hidden, streams = result.pair.facts.hidden_size, result.pair.facts.streams
    assert width in (hidden, hidden and hidden * streams)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_hidden_layers", 1 << 62),
        ("num_target_layers", 1 << 62),
        ("dflash_config.target_layer_ids", [7] * 400_000),
        ("dflash_config.target_layer_ids", list(range(400_000))),
        ("dflash_config.target_layer_ids", ...),
        ("architectures", ["x" * 400_000]),
        ("layer_types", ["x"] * 400_000),
    ],
)
@pytest.mark.parametrize("ids", [True, False])
def test_nothing_takes_long_or_says_much(key: str, value: Any, ids: bool) -> None:
    target, draft = copy.deepcopy(PAIRS["nested"])
    draft = draft if ids else put(draft, "dflash_config.target_layer_ids", ...)
    began = time.process_time()
    result = judge(examine(Side("target", target), Side("draft", put(draft, key, value))))
    assert time.process_time() - began < 5
    assert all(len(judgement.message) < 4000 for judgement in result.judgements)
    assert len(result.as_text()) < 30_000
