"""Our models of the engines' resolvers, one by one; `test_preflight_installed.py` asks the engines."""

from __future__ import annotations

from typing import Any

import pytest
from config_samples import configs, put

from matrix.layouts import claims, read_target
from matrix.preflight._resolvers import readings

IDS = "dflash_config.target_layer_ids"
STATED = (1, 9, 17, 25, 33)
DEFAULTS = (1, 17, 32)


def read(name: str, target_change: dict[str, Any] | None = None, **change: Any) -> dict[str, Any]:
    """Resolver -> (how, ids)."""
    target, draft = configs(name)
    for key, value in change.items():
        draft = put(draft, key.replace("__", "."), value)
    for key, value in (target_change or {}).items():
        target = put(target, key, value)
    found = readings(draft, claims(draft), read_target(target))
    return {reading.resolver: (reading.how, reading.ids) for reading in found}


FIRST, SECOND, SGLANG, AUTHORS = (
    "first runner",
    "second runner",
    "parse_dflash_draft_config",
    "dflash",
)


def test_all_read_the_nested_layout() -> None:
    assert read("nested") == dict.fromkeys((FIRST, SECOND, SGLANG, AUTHORS), ("read", STATED))


def test_the_first_runner_takes_defaults_for_ids_at_top_level() -> None:
    found = read("nested", dflash_config__target_layer_ids=..., target_layer_ids=list(STATED))
    assert found == {
        FIRST: ("default", DEFAULTS),
        SECOND: ("read", STATED),
        SGLANG: ("read", STATED),
        AUTHORS: ("read", STATED),
    }


def test_a_null_in_dflash_config_hides_the_top_level_from_sglang() -> None:
    found = read("nested", dflash_config__target_layer_ids=None, target_layer_ids=[2, 4, 6, 8, 10])
    assert found[SGLANG] == ("guess", STATED)
    assert found[SECOND] == ("read", (2, 4, 6, 8, 10))
    assert found[AUTHORS] == ("refused", None)


def test_a_speculators_file_is_vllm_s_alone() -> None:
    found = read("speculators")
    assert found == {
        FIRST: ("read", STATED),
        SECOND: ("read", STATED),
        SGLANG: ("refused", None),
        AUTHORS: ("refused", None),
    }


@pytest.mark.parametrize(
    "change",
    [{"speculators_config": None}, {"mask_token_id": ...}, {"aux_hidden_state_layer_ids": ...}],
)
def test_vllm_refuses_a_speculators_file_without_what_it_needs(change: dict[str, Any]) -> None:
    assert read("speculators", **change)[SECOND] == ("refused", None)


def test_eagle_config_is_read_as_boundaries_and_as_outputs() -> None:
    found = read("eagle3", eagle_config={"eagle_aux_hidden_state_layer_ids": [2, 18, 33]})
    assert found == {
        FIRST: ("read", (1, 17, 32)),
        SECOND: ("default", DEFAULTS),
        SGLANG: ("read", (2, 18, 33)),
        AUTHORS: ("refused", None),
    }


def test_without_ids_eagle3_has_one_default_everywhere() -> None:
    found = read("eagle3")
    assert {found[name] for name in (FIRST, SECOND, SGLANG)} == {("default", DEFAULTS)}


def test_drafts_for_the_second_runner_never_meet_the_first() -> None:
    for name in ("nested-rope", "dflash2", "dspark-anchor-first", "in-checkpoint"):
        assert FIRST not in read(name)
    assert FIRST in read("speculators")


def test_deepseek_v41_s_ids_are_what_enters_a_layer() -> None:
    found = read("in-checkpoint")
    assert found[SECOND] == ("read", (40, 41, 42))
    moved = read("in-checkpoint", {"model_type": "deepseek_v41"}, model_type="deepseek_v41")
    assert moved[SECOND] == ("read", (39, 40, 41))


def test_sglang_wants_a_markov_head_of_a_dspark_draft() -> None:
    assert read("dspark-anchor-first")[SGLANG] == ("read", STATED)
    assert read("dspark-anchor-first", markov_rank=0)[SGLANG] == ("refused", None)


def test_sglang_s_muse_target_captures_before_a_layer() -> None:
    muse = {"model_type": "muse_glimmer"}
    assert read("nested", muse)[SGLANG] == ("read", (0, 8, 16, 24, 32))
    known = read("nested", muse, architectures=["MuseGlimmerAssistantModel"])
    assert known[SGLANG] == ("read", STATED)


@pytest.mark.parametrize(
    ("ids", "vllm", "sglang"),
    [
        ([1.7, 3], ("refused", None), ("read", (1, 3))),
        (["1", "3"], ("refused", None), ("read", (1, 3))),
        ([True, 3], ("read", (1, 3)), ("read", (1, 3))),
        ([], ("default", DEFAULTS), ("refused", None)),
        ([-1, 3], ("read", (-1, 3)), ("refused", None)),
        ([1, 36], ("read", (1, 36)), ("refused", None)),
        (7, ("refused", None), ("refused", None)),
    ],
)
def test_odd_ids_are_taken_as_each_engine_takes_them(ids: Any, vllm: Any, sglang: Any) -> None:
    found = read("nested", dflash_config__target_layer_ids=ids)
    assert (found[SECOND], found[SGLANG]) == (vllm, sglang)


def test_the_authors_code_wants_the_depth_even_where_ids_are_stated() -> None:
    assert read("nested", num_target_layers=...)[AUTHORS] == ("refused", None)
    assert read("nested", dflash_config__target_layer_ids=...)[AUTHORS] == ("guess", STATED)
    one = {"num_hidden_layers": 1, "dflash_config__target_layer_ids": ...}
    assert read("nested", **one)[AUTHORS] == ("guess", (18,))
