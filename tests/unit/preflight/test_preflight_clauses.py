"""Each clause, twice: a pair that fails it, and one that passes. And the public reports by name."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from config_samples import BAD, GOOD, configs, judged, outcomes, put

from matrix.faults import GIVES, Fault, Severity, severity_of
from matrix.preflight import CLAUSES, Side, Tensor, edition
from matrix.registry import load

ROWS = tuple(load().pairs.values())
IDS = "dflash_config.target_layer_ids"
MASK = "dflash_config.mask_token_id"
SLIDING = ["sliding_attention"] * 5
STRUCTURAL = {
    *("CFG-IDS", "CFG-GUESS", "CFG-FC", "CFG-DEPTH", "CFG-WIDTH", "CFG-VOCAB", "CFG-MASK"),
    *("CFG-BLOCK", "CFG-ARCH", "CFG-RUNNER-SPLIT"),
}
Change = dict[str, Any]

# Clause -> (committed pair, change to its draft, change to its target, engine, label, words).
RED: dict[str, list[tuple[str, Change, Change, str | None, str, str]]] = {
    "CFG-IDS": [
        ("nested", {IDS: ...}, {}, None, "config-invalid", "no key states"),
        ("nested", {IDS: []}, {}, None, "config-invalid", "is empty"),
        (
            "nested",
            {IDS: [1, "9"]},
            {},
            None,
            "config-invalid",
            "should be a list of whole numbers",
        ),
        ("nested", {IDS: [1, True]}, {}, None, "config-invalid", "whole numbers"),
        ("nested", {IDS: [1, 9.5]}, {}, None, "config-invalid", "whole numbers"),
        ("nested", {IDS: {"a": 1}}, {}, None, "config-invalid", "whole numbers"),
        (
            "nested",
            {IDS: [-1, 9, 17, 25, 33]},
            {},
            None,
            "config-invalid",
            r"\[-1\] are not in 0..35",
        ),
        (
            "nested",
            {IDS: [1, 9, 17, 25, 36]},
            {},
            None,
            "config-invalid",
            r"\[36\] are not in 0..35",
        ),
        ("nested", {IDS: [1, 9, 9, 25, 33]}, {}, None, "config-invalid", r"\[9\] stand there more"),
        ("nested", {IDS: [9, 1, 17, 25, 33]}, {}, None, "config-invalid", "not increasing"),
        ("nested", {IDS: [9, 1, 17, 25, 33]}, {}, "vllm", "config-invalid", "not increasing"),
        (
            "speculators",
            {"aux_hidden_state_layer_ids": [0, 10, 18]},
            {},
            None,
            "config-invalid",
            r"\[-1\]",
        ),
        (
            "several-keys",
            {"eagle_aux_hidden_state_layer_ids": [1, 13, 25, 33, 39]},
            {},
            None,
            "config-invalid",
            "eagle_aux_hidden_state_layer_ids says",
        ),
        (
            "speculators",
            {"aux_hidden_state_layer_ids": [1, 9, 17, 25, 33]},
            {},
            None,
            "tap-shift-1",
            "left out the 1",
        ),
    ],
    "CFG-GUESS": [
        ("nested", {IDS: ...}, {}, "sglang", "tap-guess", r"sglang .* takes \[1, 9, 17, 25, 33\]"),
        ("nested", {IDS: None}, {}, None, "tap-guess", "vllm .first runner. takes"),
    ],
    "CFG-FC": [
        (
            "nested",
            {IDS: [1, 9, 17, 25, 40]},
            {},
            None,
            "config-mismatch",
            "takes 12800 features, 4 planes give 10240",
        ),
        (
            "nested",
            {"target_hidden_size": 4096},
            {},
            None,
            "config-mismatch",
            "takes 20480 features, 5 planes give 12800",
        ),
    ],
    "CFG-DEPTH": [
        (
            "nested",
            {"num_target_layers": 41},
            {},
            None,
            "config-mismatch",
            "is 41, and the target has 36",
        ),
        ("nested", {"num_target_layers": "36"}, {}, None, "config-invalid", "'36'; want 36"),
        ("nested", {}, {"num_hidden_layers": ...}, None, "config-invalid", "states no depth"),
        ("nested", {"num_hidden_layers": 0}, {}, None, "config-invalid", "num_hidden_layers is 0"),
    ],
    "CFG-WIDTH": [
        (
            "nested",
            {"hidden_size": 4096},
            {},
            None,
            "config-mismatch",
            "is 4096, and the target's planes are 2560",
        ),
        ("nested", {"hidden_size": ...}, {}, None, "config-invalid", "hidden_size is None"),
        ("multi-stream", {"target_hidden_size": "wide"}, {}, None, "config-invalid", "is 'wide'"),
        (
            "multi-stream",
            {"target_hidden_size": 8192},
            {},
            None,
            "config-mismatch",
            "4096 or 16384 wide",
        ),
        ("nested", {}, {"hidden_size": "wide"}, None, "config-invalid", "states no hidden size"),
    ],
    "CFG-VOCAB": [
        (
            "nested",
            {"vocab_size": 151936 + 64},
            {},
            None,
            "config-mismatch",
            "the target's is 151936",
        ),
        (
            "speculators",
            {"draft_vocab_size": 200000},
            {},
            None,
            "config-mismatch",
            "at most 151936",
        ),
        (
            "nested",
            {"vocab_size": None, "draft_vocab_size": -3},
            {},
            None,
            "config-invalid",
            "is -3",
        ),
    ],
    "CFG-MASK": [
        ("nested", {MASK: ...}, {}, None, "config-invalid", "no key states a mask token"),
        ("nested", {MASK: 151936}, {}, None, "config-invalid", "151936; want a token in 0..151935"),
        ("nested", {MASK: -1}, {}, None, "config-invalid", "is -1"),
        ("nested", {MASK: "<mask>"}, {}, None, "config-invalid", "'<mask>'"),
        (
            "nested",
            {"dflash_config.mask_token_id": None, "mask_token_id": 7},
            {},
            None,
            "config-invalid",
            "is null, and hides mask_token_id",
        ),
        ("nested", {"mask_token_id": 7}, {}, None, "config-invalid", "mask_token_id says 7"),
    ],
    "CFG-BLOCK": [
        ("nested", {"block_size": 1}, {}, None, "config-invalid", "from 2 to 1024"),
        ("nested", {"block_size": 16.0}, {}, None, "config-invalid", "is 16.0"),
        (
            "nested",
            {"dflash_config.block_size": 8},
            {},
            None,
            "config-invalid",
            "block_size says 16",
        ),
        ("dspark-anchor-first", {"block_size": 0}, {}, None, "config-invalid", "from 1 to 1024"),
        ("nested", {"block_size": ...}, {}, None, "config-mismatch", "not stated"),
        ("speculators", {"block_size": 4}, {}, None, "config-mismatch", "a block of 4 drafts 3"),
        (
            "nested",
            {"dflash_config.sample_from_anchor": True},
            {},
            "vllm",
            "start-refused",
            "vLLM refuses",
        ),
        (
            "dspark-bonus-anchor",
            {"sample_from_anchor": True},
            {},
            None,
            "config-invalid",
            "contradict",
        ),
    ],
    "CFG-ARCH": [
        (
            "nested",
            {"architectures": ["NobodysDraftModel"]},
            {},
            None,
            "start-refused",
            "doesn't know the draft's class",
        ),
        ("nested", {"architectures": ...}, {}, "sglang", "start-refused", "no architectures"),
        (
            "nested",
            {},
            {"architectures": ["Gemma3ForCausalLM"]},
            "vllm",
            "hook-missing",
            "Gemma3ForCausalLM offers no hook",
        ),
        (
            "nested",
            {},
            {"architectures": ["Qwen2ForCausalLM"]},
            "sglang",
            "hook-missing",
            "offers no hook",
        ),
        ("nested", {}, {"architectures": ...}, None, "config-invalid", "names no class"),
        (
            "nested",
            {},
            {"architectures": ["NobodyForCausalLM"]},
            None,
            "start-refused",
            "the target's class",
        ),
        ("dspark-anchor-first", {}, {}, "transformers", "start-refused", "no Qwen3DSparkModel"),
        # deepseek-ai/dflash_qwen3_8b_block7 is labelled so, and has no Markov head.
        ("dspark-anchor-first", {"markov_rank": 0}, {}, "sglang", "start-refused", "markov_rank"),
        ("nested", {"num_target_layers": ...}, {}, "transformers", "start-refused", "num_target"),
        ("speculators", {}, {}, "sglang", "start-refused", "reads no speculators format"),
        (
            "speculators",
            {"speculators_model_type": "kv_native_dflash"},
            {},
            "vllm",
            "start-refused",
            "kv_native_dflash",
        ),
        (
            "dspark-anchor-first",
            {"architectures": ["DSparkDraftModel"], "model_type": "llama"},
            {},
            "vllm",
            "start-refused",
            "DeepSeek V4's own draft",
        ),
    ],
    "CFG-RUNNER-SPLIT": [
        (
            "nested",
            {IDS: ..., "target_layer_ids": [1, 9, 17, 25, 33]},
            {},
            "vllm",
            "runner-split",
            r"first runner. takes \[1, 17, 32\] .default.",
        ),
        (
            "nested",
            {IDS: ..., "dflash_config.layer_ids": [2, 10, 18, 26, 35]},
            {},
            None,
            "runner-split",
            "sglang .* .guess.",
        ),
        (
            "eagle3",
            {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 18, 33]}},
            {},
            None,
            "runner-split",
            r"sglang .* takes \[2, 18, 33\]",
        ),
    ],
    "CFG-LAST": [
        ("nested", {IDS: [1, 9, 17, 25, 35]}, {}, None, "config-mismatch", "before the final norm"),
        (
            "nested",
            {IDS: [1, 9, 17, 25, 35]},
            {},
            "vllm",
            "config-mismatch",
            "layer 35 is the last",
        ),
        ("nested", {IDS: [1, 9, 17, 25, 35]}, {}, "sglang", "plane-missing", "never captures it"),
    ],
    "CFG-MASK-ROLE": [
        ("nested", {MASK: 151643}, {}, None, "config-mismatch", "bos_token_id"),
        ("nested", {MASK: 5}, {"eos_token_id": [4, 5]}, None, "config-mismatch", "eos_token_id"),
    ],
    "CFG-CONTEXT": [
        (
            "nested",
            {},
            {"max_position_embeddings": 262144},
            None,
            "config-mismatch",
            "40960 positions, the target 262144",
        ),
        ("nested", {"max_position_embeddings": "many"}, {}, None, "config-invalid", "'many'"),
    ],
    "CFG-ROPE": [
        (
            "nested",
            {"rope_theta": 10000},
            {},
            None,
            "config-mismatch",
            "10000, the target's 1000000",
        ),
        (
            "nested",
            {"rope_parameters": {"rope_theta": 5}},
            {},
            None,
            "config-invalid",
            "rope_parameters.rope_theta says 5",
        ),
        ("nested", {"rope_theta": "big"}, {}, None, "config-invalid", "'big'"),
    ],
    "CFG-MROPE": [
        (
            "nested",
            {"rope_scaling": {"mrope_section": [11, 11, 10]}},
            {},
            None,
            "config-mismatch",
            "mrope_section",
        ),
    ],
    "CFG-WINDOW": [
        ("nested", {"layer_types": SLIDING}, {}, None, "config-invalid", "the window is None"),
        (
            "nested",
            {"layer_types": SLIDING[:4]},
            {},
            None,
            "config-invalid",
            "4 entries for 5 layers",
        ),
        ("nested", {"layer_types": "full"}, {}, None, "config-invalid", "'full'"),
        (
            "nested",
            {"layer_types": SLIDING, "sliding_window": 8},
            {},
            None,
            "config-mismatch",
            "shorter than a block",
        ),
        ("nested-rope", {"is_causal": False}, {}, None, "config-mismatch", "aren't causal"),
        (
            "nested-rope",
            {"is_causal": False, "dflash_config.causal": True},
            {},
            None,
            "config-invalid",
            "contradict",
        ),
    ],
    "CFG-DTYPE": [
        ("nested", {"dtype": "float32"}, {}, None, "config-mismatch", "the draft is float32")
    ],
    "CFG-QUANT": [
        (
            "nested",
            {"quantization_config": {"quant_method": "fp8"}},
            {},
            None,
            "config-mismatch",
            "'fp8'",
        ),
        (
            "nested",
            {},
            {"quantization_config": {"kv_cache_scheme": {"bits": 8}}},
            None,
            "config-mismatch",
            "KV cache",
        ),
    ],
    "CFG-KEYS": [
        ("nested", {"dflash_config.aux_norm": True, "taps": 5}, {}, None, "config-invalid", "taps"),
    ],
}


def changed(config: dict[str, Any], change: Change) -> dict[str, Any]:
    for key, value in change.items():
        config = put(config, key, value)
    return config


@pytest.mark.parametrize(
    ("clause", "case"), [(clause, case) for clause, cases in RED.items() for case in cases]
)
def test_a_pair_that_breaks_a_clause_is_told_so(clause: str, case: Any) -> None:
    name, draft_change, target_change, engine, label, words = case
    target, draft = configs(name)
    before = judged(target, draft, engine)
    after = judged(changed(target, target_change), changed(draft, draft_change), engine)
    (found,) = [judgement for judgement in after.judgements if judgement.clause == clause]
    outcome = "warn" if severity_of(clause, Fault(label)) is Severity.GUARD else "fail"
    assert (found.outcome, found.fault) == (outcome, label), found.message
    assert re.search(words, found.message), found.message
    assert found.expected != found.actual
    if draft_change or target_change:
        assert outcomes(before)[clause] in ("pass", "skip")


def test_every_clause_is_proved_red_and_green() -> None:
    elsewhere = {"CFG-EDITION"}
    assert RED.keys() | elsewhere == CLAUSES.keys()
    assert CLAUSES.keys() == {clause for clause in GIVES if clause.startswith("CFG-")}
    green = {
        clause
        for name in GOOD
        for clause, outcome in outcomes(judged(*configs(name))).items()
        if outcome == "pass"
    }
    assert green | elsewhere == CLAUSES.keys()


def test_every_label_of_the_table_is_given_by_a_case() -> None:
    given = {(clause, case[4]) for clause, cases in RED.items() for case in cases}
    told = {
        (clause, str(label))
        for clause in CLAUSES
        for label in GIVES[clause]
        if clause != "CFG-EDITION"
    }
    # A token that `mask_token` names otherwise needs a tokenizer: below.
    assert told - given == {("CFG-MASK-ROLE", "config-invalid")}


@pytest.mark.parametrize("name", GOOD)
def test_a_published_layout_is_refused_by_no_clause(name: str) -> None:
    result = judged(*configs(name))
    assert not [j for j in result.judgements if j.outcome == "fail"]
    assert any(found["starts"] for found in result.as_json()["engines"].values())


@pytest.mark.parametrize(
    ("name", "engine", "clauses"),
    [
        # vllm-project/vllm#48113: Qwen3-4B's draft on Qwen3.5-4B, 10240 features for 12800.
        ("wrong-pair", None, {"CFG-IDS", "CFG-FC", "CFG-DEPTH", "CFG-VOCAB"}),
        # NVIDIA/Model-Optimizer#2149: [1, 5, 5, 29, 41, 51].
        ("repeated-ids", None, {"CFG-IDS", "CFG-FC"}),
        ("no-mask-token", None, {"CFG-MASK"}),
        # sgl-project/sglang#37475: [1, 16, 31, 46, 61] guessed for [5, 19, 33, 47, 61].
        ("guessed-ids", None, {"CFG-IDS", "CFG-GUESS"}),
        # sgl-project/sglang#32204: id 31 of 32 layers, for SGLang only.
        ("last-layer", "sglang", {"CFG-LAST"}),
        ("last-layer", "vllm", set()),
        ("last-layer", "transformers", set()),
        ("last-layer", None, set()),
    ],
)
def test_public_reports_are_refused_by_the_right_clause(
    name: str, engine: str | None, clauses: set[str]
) -> None:
    result = judged(*configs(name), engine)
    assert {j.clause for j in result.judgements if j.outcome == "fail"} == clauses
    assert result.failed == bool(clauses)
    assert name in BAD


def test_the_guess_of_sglang_is_quoted() -> None:
    said = judged(*configs("guessed-ids"), "sglang").judgements
    (guess,) = [judgement for judgement in said if judgement.clause == "CFG-GUESS"]
    assert list(guess.actual.values()) == [[1, 16, 31, 46, 61]]


def test_the_authors_code_keeps_any_order() -> None:
    target, draft = configs("nested")
    result = judged(target, put(draft, IDS, [33, 9, 17, 25, 1]), "transformers")
    assert not result.failed


def test_ids_that_every_key_agrees_on_are_read_once() -> None:
    result = judged(*configs("several-keys"))
    assert result.as_json()["ids"] == {
        "value": [1, 13, 25, 33, 39],
        "key": "dflash_config.target_layer_ids",
        "semantics": "output",
    }


def test_boundaries_are_reported_as_outputs() -> None:
    assert judged(*configs("speculators")).as_json()["ids"] == {
        "value": [1, 9, 17, 25, 33],
        "key": "aux_hidden_state_layer_ids",
        "semantics": "boundary",
    }


@pytest.mark.parametrize(
    ("shape", "dtype", "outcome"),
    [
        ((2560, 12800), "BF16", "pass"),
        ((2560, 10240), "BF16", "fail"),
        # Packed weights have another shape: the config's widths count.
        ((2560, 6400), "U8", "pass"),
    ],
)
def test_fc_is_read_from_the_header(shape: tuple[int, int], dtype: str, outcome: str) -> None:
    target, draft = configs("nested")
    side = Side("draft", draft, tensors={"fc.weight": Tensor(dtype, shape)})
    assert outcomes(judged(target, side))["CFG-FC"] == outcome


@pytest.mark.parametrize(("last", "outcome"), [(4, "pass"), (3, "fail"), (5, "fail")])
def test_the_header_counts_the_draft_s_layers(last: int, outcome: str) -> None:
    target, draft = configs("nested")
    names = [f"layers.{place}.input_layernorm.weight" for place in range(last + 1)]
    side = Side("draft", draft, tensors=dict.fromkeys(names, Tensor("BF16", (2560,))))
    assert outcomes(judged(target, side))["CFG-DEPTH"] == outcome


def test_streams_side_by_side_are_counted() -> None:
    target, draft = configs("multi-stream")
    fc = {"fc.weight": Tensor("BF16", (4096, 81920))}
    assert outcomes(judged(target, Side("draft", draft, tensors=fc)))["CFG-FC"] == "pass"
    averaged = put(draft, "target_hidden_size", ...)
    fc = {"fc.weight": Tensor("BF16", (4096, 20480))}
    assert outcomes(judged(target, Side("draft", averaged, tensors=fc)))["CFG-FC"] == "pass"


def tokenizer(**roles: str) -> dict[str, Any]:
    contents = {"151645": "<|im_end|>", "151669": "<|MASK|>", "151670": "<|box|>"}
    return {"added_tokens_decoder": {key: {"content": c} for key, c in contents.items()}, **roles}


@pytest.mark.parametrize(
    ("mask", "named", "roles", "outcome", "label"),
    [
        (151669, None, {}, "pass", None),
        (151669, "<|MASK|>", {}, "pass", None),
        (151669, None, {"pad_token": "<|MASK|>"}, "warn", "config-mismatch"),
        (151670, "<|MASK|>", {}, "fail", "config-invalid"),
    ],
)
def test_the_target_s_tokenizer_knows_roles(
    mask: int, named: str | None, roles: dict[str, str], outcome: str, label: str | None
) -> None:
    target, draft = configs("nested")
    draft = put(put(draft, MASK, mask), "dflash_config.mask_token", named)
    result = judged(Side("target", target, tokenizer=tokenizer(**roles)), draft)
    (found,) = [judgement for judgement in result.judgements if judgement.clause == "CFG-MASK-ROLE"]
    assert (found.outcome, found.fault) == (outcome, label)


# --- editions ----------------------------------------------------------------------------------


def hub(draft: dict[str, Any], revision: str | None = None) -> Side:
    return Side("Z-Lab/qwen3-4b-dflash-b16", draft, hub=True, revision=revision)


def test_the_edition_of_the_row_passes_and_another_warns() -> None:
    target, draft = configs("nested")
    same = judged(target, hub(draft), rows=ROWS)
    assert outcomes(same)["CFG-EDITION"] == "pass"
    other = judged(target, hub(put(draft, IDS, [1, 9, 17, 25, 34])), rows=ROWS)
    (found,) = [j for j in other.judgements if j.clause == "CFG-EDITION"]
    assert (found.outcome, found.fault) == ("warn", "config-mismatch")
    assert "target_layer_ids [1, 9, 17, 25, 34] (row: [1, 9, 17, 25, 33])" in found.message
    assert outcomes(judged(target, draft, rows=ROWS))["CFG-EDITION"] == "skip"


def test_a_row_s_own_revision_is_its_edition() -> None:
    target, draft = configs("nested")
    (row,) = [row for row in ROWS if row.key == "qwen3-4b-dflash-b16"]
    pinned = replace(row, revision="a" * 40)
    moved = put(draft, IDS, [1, 9, 17, 25, 34])
    assert outcomes(judged(target, hub(moved, "a" * 40), rows=(pinned,)))["CFG-EDITION"] == "pass"
    assert outcomes(judged(target, hub(moved, "b" * 40), rows=(pinned,)))["CFG-EDITION"] == "warn"


def test_an_edition_is_what_a_config_says_not_how() -> None:
    _, draft = configs("nested")
    assert edition(draft) == edition(dict(reversed(draft.items())))
    assert edition(draft) != edition(put(draft, "block_size", 8))
    assert len(edition(draft)) == 12
