"""The built-in registry, preflighted: its facts fit each other."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from matrix.layouts import place, read
from matrix.registry import default_key, load
from matrix.registry._rows import pair_problems

PAIRS = load().pairs
every_row = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)


@every_row
def test_no_row_contradicts_itself(pair):
    assert list(pair_problems(pair)) == []


@every_row
def test_ids_are_increasing_as_in_every_published_draft(pair):
    assert list(pair.target_layer_ids) == sorted(pair.target_layer_ids)


@every_row
def test_a_real_row_has_the_default_key_and_says_where_it_is_from(pair):
    prefix = "synthetic-" if pair.kind == "synthetic" else ""
    assert pair.key == (default_key(pair.speculative_model) if not prefix else pair.key)
    assert pair.key.startswith(prefix)
    assert pair.source.strip()
    assert not re.search(r"index \d", pair.source + pair.notes)
    assert pair.is_available_online == (pair.kind == "real")


@every_row
def test_a_file_in_the_rows_layout_gives_the_rows_ids_and_width(pair):
    width = (pair.hidden_size or 64) * pair.width_factor
    config = place(
        {"hidden_size": width, "num_hidden_layers": 2, "vocab_size": 512, "rope_theta": 1e6},
        layout=pair.layout,
        target_layer_ids=pair.target_layer_ids,
        block_size=pair.block_size,
        mask_token_id=511,
        num_target_layers=pair.num_target_layers,
    )
    facts = read(config)
    assert facts.ids == pair.target_layer_ids
    assert facts.semantics == pair.id_semantics
    assert facts.fc_in == width * len(pair.target_layer_ids)


@pytest.mark.parametrize(
    ("key", "fc_in"),
    # The draft's `fc` as published: Laguna's file, and vllm-project/vllm#48113 for Qwen3-4B.
    [("laguna-xs-2.1-dflash", 10240), ("qwen3-4b-dflash-b16", 12800)],
)
def test_ids_times_width_is_the_published_fc(key, fc_in):
    assert len(PAIRS[key].target_layer_ids) * PAIRS[key].hidden_size == fc_in


def test_the_registry_covers_what_the_clauses_need():
    pairs = PAIRS.values()
    assert {pair.layout for pair in pairs} >= {"nested", "nested+rope", "speculators"}
    assert any(pair.target_layer_ids[0] == 0 for pair in pairs)
    assert any(pair.target_layer_ids[-1] == pair.num_target_layers - 1 for pair in pairs)
    assert {"Qwen3MoeForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"} <= {
        pair.arch for pair in pairs if pair.kind == "synthetic"
    }
    assert sum(pair.kind == "real" for pair in pairs) >= 12


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
    row = replace(PAIRS["qwen3-4b-dflash-b16"], target_layer_ids=(1, 36), mask_token_id=151936)
    assert [field for field, _ in pair_problems(row)] == ["target_layer_ids", "mask_token_id"]
