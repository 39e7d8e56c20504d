"""Every row of the registry, preflighted: its facts as two configs pass what is structural."""

from __future__ import annotations

from typing import Any

import pytest
from config_samples import judged, outcomes

from matrix.layouts import place
from matrix.registry import Pair, load

ROWS = {key: pair for key, pair in load().pairs.items() if pair.speculative_method == "dflash"}
# Whether an engine knows the architecture is for its releases to say, not for the row's facts.
STRUCTURAL = (
    *("CFG-IDS", "CFG-GUESS", "CFG-FC", "CFG-DEPTH", "CFG-WIDTH", "CFG-VOCAB", "CFG-MASK"),
    *("CFG-BLOCK", "CFG-RUNNER-SPLIT"),
)


def configs(row: Pair) -> tuple[dict[str, Any], dict[str, Any]]:
    """The least that a row's target and draft would say; what the row doesn't know is made up."""
    hidden, vocab, layers = row.hidden_size or 64, row.vocab_size or 1 << 20, 2
    target = {
        "architectures": [row.arch],
        "num_hidden_layers": row.num_target_layers,
        "hidden_size": hidden,
        "vocab_size": vocab,
        "hc_mult": row.width_factor,
    }
    base = {
        "architectures": ["DFlashDraftModel"],
        "hidden_size": hidden * row.width_factor,
        "num_hidden_layers": layers,
        "vocab_size": vocab,
        "rope_theta": 1e6,
    }
    draft = place(
        base,
        layout=row.layout,
        target_layer_ids=row.target_layer_ids,
        block_size=row.block_size or 16,
        mask_token_id=511 if row.mask_token_id is None else row.mask_token_id,
        num_target_layers=row.num_target_layers,
    )
    return target, draft


@pytest.mark.parametrize("key", ROWS)
def test_a_row_passes_what_is_structural(key: str) -> None:
    row = ROWS[key]
    if row.layout in (None, "in-checkpoint", "eagle3"):
        pytest.skip(f"no file can be written in the layout {row.layout}")
    # Files at top level are read by vLLM's second runner alone; the authors' code reads them all.
    engine = "transformers" if row.layout == "flat" else None
    result = judged(*configs(row), engine)
    found = outcomes(result)
    assert {clause: found[clause] for clause in STRUCTURAL if found[clause] == "fail"} == {}
    assert tuple(result.as_json()["ids"]["value"]) == row.target_layer_ids
    assert result.as_json()["ids"]["semantics"] == row.id_semantics
