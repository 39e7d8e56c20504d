"""Write a draft's config in a layout, as `read` reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matrix.errors import LayoutError

__all__ = ["place"]


def place(
    base: dict[str, Any],
    *,
    layout: str,
    target_layer_ids: Sequence[int],
    block_size: int,
    mask_token_id: int,
    num_target_layers: int,
) -> dict[str, Any]:
    """Write a draft config in `layout`, as `read` reads it.

    Args:
        base: a plain transformers config (Qwen3's, say) of the draft's own layers, with
            `rope_theta` or `rope_parameters`; it isn't changed.
        layout: any but `in-checkpoint`, which has no file of its own.
        target_layer_ids: layer ids as outputs.
        block_size: tokens in a block.
        mask_token_id: token in the places to be drafted.
        num_target_layers: depth of the target; the speculators format has no key for it.

    Raises:
        LayoutError: `layout` can't be written.
    """
    ids = list(target_layer_ids)
    nested = {"mask_token_id": mask_token_id, "target_layer_ids": ids}
    if layout == "flat":
        return _old_rope(base) | nested | _top(block_size, num_target_layers)
    if layout == "nested":
        return _old_rope(base) | {"dflash_config": nested} | _top(block_size, num_target_layers)
    if layout == "nested+rope":
        inner = nested | {"block_size": block_size}
        return _new_rope(base) | {"dflash_config": inner, "num_target_layers": num_target_layers}
    if layout == "speculators":
        return _speculators(base, ids, block_size, mask_token_id)
    raise LayoutError(
        f"layout {layout!r} can't be written; flat, nested, nested+rope and speculators can"
    )


def _top(block_size: int, num_target_layers: int) -> dict[str, Any]:
    return {"block_size": block_size, "num_target_layers": num_target_layers}


def _old_rope(base: dict[str, Any]) -> dict[str, Any]:
    """With `rope_theta` and `rope_scaling` at top level, as transformers 4 wrote them."""
    rope = dict(base.get("rope_parameters") or {})
    if not rope:
        return dict(base)
    theta = rope.pop("rope_theta", base.get("rope_theta"))
    scaling = None if rope.get("rope_type", "default") == "default" else rope
    rest = {key: value for key, value in base.items() if key != "rope_parameters"}
    return rest | {"rope_theta": theta, "rope_scaling": scaling}


def _new_rope(base: dict[str, Any]) -> dict[str, Any]:
    """With everything on rope in `rope_parameters`, as transformers 5 writes it."""
    rest = {key: v for key, v in base.items() if key not in {"rope_theta", "rope_scaling"}}
    if base.get("rope_parameters"):
        return rest
    scaling = base.get("rope_scaling") or {"rope_type": "default"}
    return rest | {"rope_parameters": {"rope_theta": base.get("rope_theta"), **scaling}}


def _speculators(
    base: dict[str, Any], ids: list[int], block_size: int, mask_token_id: int
) -> dict[str, Any]:
    outer = {"architectures", "auto_map", "dtype", "torch_dtype", "transformers_version"}
    proposal = {
        "accept_tolerance": 0.0,
        "proposal_type": "greedy",
        "speculative_tokens": block_size - 1,
        "verifier_accept_k": 1,
    }
    return {key: value for key, value in base.items() if key in outer} | {
        "aux_hidden_state_layer_ids": [layer + 1 for layer in ids],
        "block_size": block_size,
        "draft_vocab_size": base.get("vocab_size"),
        "mask_token_id": mask_token_id,
        "speculators_config": {
            "algorithm": "dflash",
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": {"architectures": [], "name_or_path": None},
        },
        "speculators_model_type": "dflash",
        "tie_word_embeddings": base.get("tie_word_embeddings", False),
        "transformer_layer_config": {
            key: value for key, value in _old_rope(base).items() if key not in outer
        },
    }
