from __future__ import annotations

import pytest

from matrix.errors import UsageError
from matrix.registry import load


def keys(*names, kind=None):
    return [pair.key for pair in load().select(names, kind)]


def test_no_names_mean_every_row():
    assert keys() == list(load().pairs)


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("qwen3-coder-next-dflash", ["qwen3-coder-next-dflash"]),
        ("Qwen3-Coder-Next-DFlash", ["qwen3-coder-next-dflash"]),
        ("google/gemma-4-26b-a4b-it", ["gemma-4-26b-a4b-it-dflash"]),
        ("RedHatAI/Qwen3-8B-speculator.dflash", ["qwen3-8b-speculator.dflash"]),
        ("Qwen3_5MoeForCausalLM", ["synthetic-qwen3.5-moe-text", "synthetic-qwen3.5-moe-small"]),
        ("gptoss*", ["gpt-oss-20b-dflash", "gpt-oss-120b-dflash", "gpt-oss-120b-eagle3-v3"]),
        (
            "poolside/*dflash",
            ["laguna-xs.2-speculator.dflash", "laguna-xs-2.1-dflash", "laguna-s-2.1-dflash"],
        ),
        ("*llama-3.?-8b*", ["llama3.1-8b-instruct-dflash-ultrachat"]),
    ],
)
def test_a_pair_is_chosen_by_key_target_draft_architecture_or_glob(name, chosen):
    assert keys(name) == chosen


def test_chosen_rows_keep_the_registrys_order_and_come_once():
    assert keys("gpt-oss-20b-dflash", "qwen3-4b-*b16", "gpt-*-dflash") == [
        "qwen3-4b-dflash-b16",
        "gpt-oss-20b-dflash",
        "gpt-oss-120b-dflash",
        "qwen3-4b-dspark-3l-b16",
    ]


def test_kind_narrows_what_the_names_chose():
    assert keys("Qwen3MoeForCausalLM", kind="synthetic") == ["synthetic-qwen3-moe"]
    assert keys("gpt*", kind="synthetic") == []
    with pytest.raises(UsageError, match="unknown kind 'fake'; one of real, synthetic, canary"):
        keys(kind="fake")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("qwen3-8", "qwen3-8b-dflash-b16"),
        ("qwen3-coder-nxt-dflash", "qwen3-coder-next-dflash"),
        ("LlamaForCausalLLM", "LlamaForCausalLM"),
        ("opena/gpt-oss-20b", "openai/gpt-oss-20b"),
    ],
)
def test_a_name_that_matches_nothing_gets_the_nearest(name, nearest):
    with pytest.raises(UsageError) as caught:
        keys("qwen/qwen3-8b", name)
    assert f"no pair matches {name!r}; nearest: " in str(caught.value)
    assert nearest in str(caught.value)


def test_a_name_that_is_near_nothing_points_to_the_list():
    with pytest.raises(UsageError, match="no pair matches 'xyzzy'; `dflash-matrix list`"):
        keys("xyzzy")
