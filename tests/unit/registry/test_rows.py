"""The built-in registry, preflighted: its facts fit each other."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from matrix.layouts import place, read
from matrix.registry import default_key, gaps, load, rows
from matrix.registry._rows import pair_problems
from matrix.twins import lacking

PAIRS = load().pairs
REAL = [pair for pair in PAIRS.values() if pair.kind == "real"]
every_row = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
HUB_ID = re.compile(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+\Z")


@every_row
def test_no_row_contradicts_itself(pair):
    assert list(pair_problems(pair)) == []


@every_row
def test_ids_are_increasing_as_in_every_published_draft(pair):
    assert list(pair.target_layer_ids) == sorted(pair.target_layer_ids)


@every_row
def test_a_row_says_where_it_is_from_and_cites_only_what_is_public(pair):
    words = [pair.source, pair.notes, pair.final_tap_source, pair.transformers_version_reason or ""]
    words += [fact.source for fact in (*pair.baselines, *pair.variants)]
    words += [gate.reason for gate in pair.gates]
    assert pair.source.strip()
    for text in words:
        assert not re.search(r"index \d|/tmp|/work|pairs\.md", text)


def test_no_two_rows_have_one_key():
    assert len(rows.PAIRS) == len({pair.key for pair in rows.PAIRS})


@every_row
def test_what_can_be_had_online_is_a_hub_id(pair):
    assert HUB_ID.match(pair.target)
    assert bool(HUB_ID.match(pair.speculative_model)) == pair.is_available_online or (
        pair.kind != "real"
    )


def test_a_published_draft_has_the_default_key_or_shares_its_name_with_another():
    by_name = defaultdict(list)
    for pair in REAL:
        by_name[default_key(pair.speculative_model)].append(pair)
    for name, pairs in by_name.items():
        if pairs[0].is_available_online:
            assert [pair.key for pair in pairs].count(name) == 1 or len(pairs) > 1, name
            assert all(pair.key.startswith(name) for pair in pairs), name


def test_configs_under_one_hub_id_are_told_apart():
    drafts = Counter((pair.speculative_model, pair.subfolder) for pair in REAL)
    twice = [pair for pair in REAL if drafts[pair.speculative_model, pair.subfolder] > 1]
    assert len(twice) >= 8
    assert all(pair.edition for pair in twice)
    told = {(pair.speculative_model, pair.edition) for pair in twice}
    assert len(told) == len(twice)


@every_row
def test_a_file_in_the_rows_layout_gives_the_rows_ids_and_width(pair):
    if pair.layout == "in-checkpoint":
        pytest.skip("has no file of its own")
    width = (pair.hidden_size or 64) * pair.width_factor
    config = place(
        {"hidden_size": width, "num_hidden_layers": 2, "vocab_size": 512, "rope_theta": 1e6},
        layout=pair.layout or "nested",
        target_layer_ids=pair.target_layer_ids,
        block_size=pair.block_size or 8,
        mask_token_id=511,
        num_target_layers=pair.num_target_layers,
    )
    facts = read(config)
    assert facts.ids == pair.target_layer_ids
    assert facts.semantics == pair.id_semantics or pair.ids_key
    assert facts.fc_in == width * len(pair.target_layer_ids)


def test_the_inputs_of_fc_that_were_published_are_those_of_the_rows():
    stated = {pair.key: pair.fc_in for pair in PAIRS.values() if pair.fc_in is not None}
    assert stated == {
        "qwen3-4b-dflash-b16": 12800,
        "laguna-xs-2.1-dflash": 10240,
        "deepseek-v4-flash-speculator.dflash": 81920,
        "glm-5.3-flash-dflash2": 20480,
        "gemma-4-e4b-it-dflare": 23040,
    }


@pytest.mark.parametrize(
    ("key", "drafts"),
    [
        ("qwen3-8b-dflash-b16", 15),
        ("qwen3-8b-speculator.dflash", 7),
        ("dspark_qwen3_4b_block7", 7),
        ("gemma-4-31b-it-speculator.dspark", 7),
        ("qwen3.6-35b-a3b-speculator.dspark", 8),
        ("nvidia-nemotron-3.5-lightning-30b-a3b-nvfp4-dspark", 7),
        ("nvidia-nemotron-3.5-lightning-30b-a3b-nvfp4-dflash", 6),
        ("laguna-xs-2.1-dspark", 15),
        ("qwen3.5-27b-dflash-5-taps", None),
    ],
)
def test_drafts_per_step_are_counted_as_each_method_and_file_does(key, drafts):
    assert PAIRS[key].drafts == drafts


def test_the_registry_covers_what_the_clauses_need():
    pairs = PAIRS.values()
    assert {pair.layout for pair in pairs} == {
        None,
        "flat",
        "nested",
        "nested+rope",
        "speculators",
        "in-checkpoint",
    }
    assert {pair.speculative_method for pair in pairs} >= {"dflash", "dflash2", "dspark", "eagle3"}
    assert any(pair.target_layer_ids[0] == 0 for pair in pairs)
    last = [p.key for p in REAL if p.target_layer_ids[-1] == p.num_target_layers - 1]
    assert len(last) >= 9
    assert {"Qwen3MoeForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"} <= {
        pair.arch for pair in pairs if pair.kind == "synthetic"
    }
    assert len(REAL) >= 55


def test_a_row_that_taps_the_last_or_the_first_layer_says_so():
    for pair in REAL:
        ids, last = pair.target_layer_ids, pair.num_target_layers - 1
        said = pair.notes
        assert ("last layer" in said) == (ids[-1] == last), pair.key
        assert not (ids[0] == 0 and ids[-1] != last) or "first layer" in said or "off" in said, (
            pair.key
        )


def test_rows_without_a_twin_are_few_and_say_why():
    why = {pair.key: said for pair in PAIRS.values() if (said := lacking(pair))}
    assert why == {
        "deepseek-v4-flash-speculator.dflash": "no twin for 4 streams, the draft class reads one",
        **dict.fromkeys(
            (
                "glm-5.3-flash-dflash2",
                "glm-5.3-flash-dflash2-9-taps",
                "glm-5.3-flash-speculator.dspark-preview",
                "qwen3.8-flash-next-dflash2",
                "deepseek-v4-flash-dspark-official",
            ),
            "no twin for 4 streams, the draft class reads one",
        ),
        **dict.fromkeys(
            ("deepseek-v4-flash-0731", "deepseek-v4-pro-dspark", "deepseek-v4.1-flash"),
            "no twin for a draft inside the target's checkpoint, it has no file of its own",
        ),
        "qwen3-omni-30b-a3b-dspark": "no twin for a target of two models, a thinker and a talker",
        **{
            key: f"no twin for method {method}, only for dflash, dflash2, dspark"
            for key, method in {
                "qwen3-8b-domino-b16": "domino",
                "qwen3.5-4b-domino": "domino",
                "gemma-4-e4b-it-dflare": "dflare",
                "qwen3-8b-speculator.eagle3": "eagle3",
                "gpt-oss-120b-eagle3-v3": "eagle3",
            }.items()
        },
    }


def test_the_row_of_the_missing_hook_starts_as_vllm_starts_it():
    row = PAIRS["qwen3-coder-next-dflash"]
    assert row.draft_class == "DFlashQwen3NextDraftModel"
    assert (row.use_original_num_layers, row.max_model_len, row.max_num_seqs) == (True, 8192, 32)
    assert row.min_transformers_version == "4.56.3"
    assert row.transformers_version_reason


def test_the_speculators_row_stores_the_same_taps_as_boundaries():
    row, plain = PAIRS["qwen3-8b-speculator.dflash"], PAIRS["qwen3-8b-dflash-b16"]
    assert row.target_layer_ids == plain.target_layer_ids == (1, 9, 17, 25, 33)
    assert (row.id_semantics, row.layout) == ("boundary", "speculators")
    assert "2, 10, 18, 26, 34" in row.notes


def test_the_checks_bite():
    row = replace(
        PAIRS["qwen3-4b-dflash-b16"], target_layer_ids=(1, 36), mask_token_id=151936, streams=0
    )
    assert [field for field, _ in pair_problems(row)] == [
        "streams",
        "target_layer_ids",
        "fc_in",
        "mask_token_id",
    ]


DOCS = Path(__file__).parents[3] / "docs"


def test_no_pair_that_is_listed_as_incomplete_is_a_row():
    listed = re.findall(r"^\| `([^`]+)` \| `([^`]+)`", (DOCS / "pairs.md").read_text(), re.M)
    assert len(listed) >= 10
    assert not {draft for _, draft in listed} & {pair.speculative_model for pair in PAIRS.values()}


def test_the_gaps_in_the_documents_are_those_of_the_rows():
    section = (DOCS / "pairs.md").read_text().partition("## Gaps")[2].partition("##")[0]
    listed = re.findall(r"^\| `([^`]+)` \| (.+) \|$", section, re.M)
    assert listed == [(p.key, ", ".join(gaps(p))) for p in PAIRS.values() if gaps(p)]
    assert listed
