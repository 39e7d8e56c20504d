from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from matrix import twins
from matrix.errors import TwinError
from matrix.registry import Pair, load

PAIRS = load().pairs
QWEN3 = PAIRS["qwen3-8b-dflash-b16"]


WITH_TWIN = [pair for pair in PAIRS.values() if not twins.lacking(pair)]


@pytest.mark.parametrize("pair", WITH_TWIN, ids=[pair.key for pair in WITH_TWIN])
def test_a_recipe_keeps_depth_ids_block_and_layout(pair: Pair) -> None:
    parts = twins.recipe(pair)
    assert json.loads(json.dumps(parts)) == parts
    assert parts["target"]["num_hidden_layers"] == pair.num_target_layers
    assert tuple(parts["target_layer_ids"]) == pair.target_layer_ids
    assert parts["layout"] == (pair.layout or "nested")
    assert parts["block_size"] == (pair.block_size or 8)
    assert parts["target"]["vocab_size"] == parts["draft"]["vocab_size"] == 512
    assert parts["mask_token_id"] == 511


def test_two_rows_with_the_same_facts_have_one_recipe() -> None:
    assert twins.recipe(replace(QWEN3, key="other", notes="said otherwise")) == twins.recipe(QWEN3)


def test_the_drafts_layers_are_the_rows() -> None:
    kinds = ("sliding_attention", "full_attention", "sliding_attention")
    draft = twins.recipe(replace(QWEN3, draft_layer_types=kinds, draft_num_hidden_layers=3))[
        "draft"
    ]
    assert (draft["num_hidden_layers"], tuple(draft["layer_types"])) == (3, kinds)
    assert draft["sliding_window"] == 64


def test_a_window_without_kinds_is_every_layers() -> None:
    row = replace(QWEN3, draft_layer_types=None, draft_sliding_window=2048)
    assert set(twins.recipe(row)["draft"]["layer_types"]) == {"sliding_attention"}


def test_blanks_that_were_filled_are_noted() -> None:
    row = replace(
        QWEN3,
        block_size=None,
        draft_num_hidden_layers=None,
        draft_layer_types=None,
        draft_vocab_size=32000,
        draft_class="DFlashQwen3NextDraftModel",
        layout=None,
    )
    notes = twins.recipe(row)["notes"]
    assert "layout nested, the row leaves it blank" in notes
    assert "drafted for by DFlashDraftModel, not DFlashQwen3NextDraftModel" in notes
    assert "block 8" in notes
    assert "2 draft layers" in notes
    assert "not a reduced one" in notes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"speculative_method": "eagle3"},
            "no twin for method eagle3, only for dflash, dflash2, dspark",
        ),
        ({"streams": 4}, "no twin for 4 streams, the draft class reads one"),
        ({"layout": "in-checkpoint"}, "no twin for a draft inside the target's checkpoint"),
        ({"arch": "Qwen3OmniMoeForConditionalGeneration"}, "no twin for a target of two models"),
    ],
)
def test_what_has_no_twin_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(TwinError, match=said):
        twins.recipe(replace(QWEN3, **change))


def test_importing_twins_and_states_imports_no_torch() -> None:
    code = "import matrix.twins, matrix.reference, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_overrides_of_the_target_s_config_are_kept() -> None:
    overrides = {"layer_types": ["full_attention"] * 36, "full_attention_interval": 1}
    parts = twins.recipe(replace(QWEN3, hf_overrides=overrides))
    assert parts["overrides"] == overrides
    assert "overrides" not in twins.recipe(QWEN3)
