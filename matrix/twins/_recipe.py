"""From a row to the recipe of its twin: plain data, no torch.

Kept from the row: architecture, depth, layer pattern, overrides of the target's config, layer ids,
block size, the draft's layers, kinds of attention and config layout. Shrunk: everything that makes
a model large.
"""

from __future__ import annotations

from itertools import cycle, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from matrix.errors import TwinError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matrix.registry import Pair

__all__ = ["HIDDEN", "MASK", "VOCAB", "recipe"]

VERSION: Final = 1
"""Raised whenever the same recipe would give other bytes."""
VOCAB: Final = 512
MASK: Final = 511
HIDDEN: Final = 64
WINDOW: Final = 64
"""Sliding windows are cut to this, so that prompts of a test get past them."""
BLOCK: Final = 8
"""The block of a draft whose row leaves it blank."""
DRAFT_LAYERS: Final = 2
"""The layers of a draft whose row leaves their number blank."""
MOST_DRAFT_LAYERS: Final = 8
CONTEXT: Final = 4096

# 32 is the smallest head that attention kernels on CPUs take, 128 the one that linear attention
# asks for. A config class takes of these what it has a field for.
_TARGET: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "v_head_dim": 32,
        "max_position_embeddings": CONTEXT,
        "sliding_window": WINDOW,
        "tie_word_embeddings": False,
        "use_cache": True,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        "num_experts": 8,
        "num_local_experts": 8,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 1,
        "linear_num_value_heads": 2,
    }
)

# What a multimodal class sees with: as little as its config class allows.
_VISION: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "depth": 1,
        "num_hidden_layers": 1,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_heads": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "out_hidden_size": HIDDEN,
        "num_position_embeddings": 16,
        "position_embedding_size": 64,
    }
)

# The rotary part of a quarter of a head must still be split in three.
_QWEN3_5: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "head_dim": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000_000.0,
            "partial_rotary_factor": 0.25,
            "mrope_section": [3, 3, 2],
            "mrope_interleaved": True,
        },
    }
)

_ARCHITECTURES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "Qwen3_5ForCausalLM": _QWEN3_5,
        "Qwen3_5MoeForCausalLM": _QWEN3_5,
        "Qwen3_5ForConditionalGeneration": _QWEN3_5,
        "Qwen3_5MoeForConditionalGeneration": _QWEN3_5,
        "Qwen3NextForCausalLM": {
            "head_dim": 64,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
        },
        "Qwen3MoeForCausalLM": {"norm_topk_prob": True, "head_dim": 32},
        # Its rope stretches a context of 4,096 by 32.
        "GptOssForCausalLM": {"max_position_embeddings": 131072, "intermediate_size": 32},
        "LagunaForCausalLM": {"gating": "per-head"},
        # The larger ones, those that are served with drafts, have no embeddings per layer.
        # Its forward compares tokens with the pad token, so there must be one.
        "Gemma4ForConditionalGeneration": {"hidden_size_per_layer_input": 0, "pad_token_id": 0},
    }
)
"""What an architecture needs beyond the common part; those that need nothing aren't listed."""

_PATTERNS: Final[Mapping[str, Mapping[str, tuple[Any, ...]]]] = MappingProxyType(
    {
        # As in the config of poolside/Laguna-XS-2.1: more heads where the window is.
        "LagunaForCausalLM": {
            "layer_types": ("full_attention", *("sliding_attention",) * 3),
            "num_attention_heads_per_layer": (4, 6, 6, 6),
        },
    }
)
"""Per-layer fields, repeated down to the depth, where the config class doesn't make them itself."""


def recipe(pair: Pair) -> dict[str, Any]:
    """Everything that determines the twin of `pair` besides dtype and library versions; JSON data.

    Raises:
        TwinError: the drafting method, or a multi-stream target, has no twin.
    """
    if pair.speculative_method != "dflash":
        raise TwinError(
            f"{pair.key}: no twin for method {pair.speculative_method}, only for dflash"
        )
    if pair.width_factor != 1:
        raise TwinError(
            f"{pair.key}: no twin for {pair.width_factor} streams, the draft class reads one"
        )
    overrides = {"overrides": dict(pair.hf_overrides)} if pair.hf_overrides else {}
    return {
        "version": VERSION,
        "arch": pair.arch,
        "depth": pair.num_target_layers,
        "target": _target(pair),
        "vision": dict(_VISION),
        "draft": _draft(pair),
        "layout": pair.layout,
        "target_layer_ids": list(pair.target_layer_ids),
        "block_size": pair.block_size or BLOCK,
        "mask_token_id": MASK,
        "notes": "; ".join(_notes(pair)),
        **overrides,
    }


def _target(pair: Pair) -> dict[str, Any]:
    depth = pair.num_target_layers
    patterns = {
        name: list(islice(cycle(pattern), depth))
        for name, pattern in _PATTERNS.get(pair.arch, {}).items()
    }
    own = _ARCHITECTURES.get(pair.arch, {})
    return {**_TARGET, **own, **patterns, "num_hidden_layers": depth}


def _draft(pair: Pair) -> dict[str, Any]:
    """Fields of the draft's Qwen3 config; a window without kinds is every layer's."""
    layers = min(_draft_layers(pair) or DRAFT_LAYERS, MOST_DRAFT_LAYERS)
    kind = "sliding_attention" if pair.draft_sliding_window else "full_attention"
    kinds = list(pair.draft_layer_types or (kind,) * layers)[-layers:]
    sliding = "sliding_attention" in kinds
    return {
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": 96,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": CONTEXT,
        "layer_types": kinds,
        "use_sliding_window": sliding,
        "sliding_window": WINDOW if sliding else None,
        "tie_word_embeddings": False,
    }


def _draft_layers(pair: Pair) -> int | None:
    return pair.draft_num_hidden_layers or len(pair.draft_layer_types or ()) or None


def _notes(pair: Pair) -> list[str]:
    """Where the twin is less than the row, or says more."""
    layers = _draft_layers(pair)
    notes = []
    if pair.block_size is None:
        notes.append(f"block {BLOCK}, the row leaves it blank")
    if layers is None:
        notes.append(f"{DRAFT_LAYERS} draft layers, the row leaves their number blank")
    elif layers > MOST_DRAFT_LAYERS:
        notes.append(f"{MOST_DRAFT_LAYERS} draft layers of {layers}")
    if pair.draft_vocab_size is not None:
        notes.append("the draft has the target's vocabulary, not a reduced one")
    return notes
