from __future__ import annotations

from dataclasses import fields, replace

from matrix.contract import CLAUSES
from matrix.registry import SETTINGS, Pair, Variant, as_json, as_line, gaps

BARE = Pair(
    key="bare",
    target="o/t",
    speculative_model="o/d",
    arch="Qwen3ForCausalLM",
    num_target_layers=4,
    target_layer_ids=(1, 3),
)
SERVED = replace(
    BARE,
    variants=(
        Variant("sglang", "page-size", "256", "a test"),
        Variant("vllm", "radix", "off", "a test"),
    ),
)


def test_a_blank_fact_is_a_dash_in_text_and_null_in_json() -> None:
    line = as_line(BARE)
    assert "width -" in line
    assert "block -" in line
    assert "mask -" in line
    assert "not run" not in line
    row = as_json(BARE)
    assert {field.name for field in fields(Pair)} | {"drafts", "gaps"} == row.keys()
    blank = ("hidden_size", "block_size", "mask_token_id", "layout", "revision", "drafts")
    assert {row[name] for name in blank} == {None}


def test_a_known_fact_is_shown() -> None:
    known = replace(BARE, hidden_size=64, block_size=8, mask_token_id=0, arch_inferred=True)
    line = as_line(known)
    for words in ("width 64 ", "block 8 ", "mask 0 ", "taps 1,3 ", "Qwen3ForCausalLM (inferred)"):
        assert words in line
    assert as_json(known)["drafts"] == 7


def test_variants_that_no_start_covers_are_gaps() -> None:
    assert gaps(SERVED) == as_json(SERVED)["gaps"] == ["sglang page-size-256", "vllm radix-off"]
    assert as_line(SERVED).endswith("not run: sglang page-size-256, vllm radix-off")
    assert gaps(BARE) == []


def test_a_start_that_the_row_asks_for_covers_the_variant_of_its_name() -> None:
    assert gaps(replace(SERVED, starts=("page-size-256",))) == ["vllm radix-off"]


def test_the_starts_of_every_row_are_those_of_the_clauses() -> None:
    assert set(SETTINGS) <= {name for clause in CLAUSES.values() for name in clause.settings}
