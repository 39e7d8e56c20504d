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
from matrix.twins._fields import (
    ARCHITECTURES,
    CONTEXT,
    HIDDEN,
    NO_TARGET,
    OUTER,
    PATTERNS,
    TARGET,
    UNDECLARED,
    VISION,
    VOCAB,
    WINDOW,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matrix.registry import Pair

__all__ = ["DRAFTS", "HIDDEN", "MASK", "VOCAB", "lacking", "recipe"]

VERSION: Final = 2
"""Raised whenever the same recipe would give other bytes."""
MASK: Final = 511
BLOCK: Final = 8
"""The block of a draft whose row leaves it blank."""
DRAFT_LAYERS: Final = 2
"""The layers of a draft whose row leaves their number blank."""
MOST_DRAFT_LAYERS: Final = 8
LAYOUT: Final = "nested"
"""The layout of a draft whose row leaves it blank; most have it."""

DRAFTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "dflash": "DFlashDraftModel",
        "dflash2": "DFlash2DraftModel",
        "dspark": "Qwen3DSparkModel",
    }
)
"""Drafting method -> the class that drafts for its twins, by its name in an engine's registry."""

# What a draft of a method has beside its layers; published: convolutions of 2 in groups of 16, a
# selector of rank 256 over 16 candidates, a Markov head of rank 256.
_HEADS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "dflash": {},
        "dflash2": {
            "conv_kernel_size": 2,
            "conv_group_size": 16,
            "selector_rank": 16,
            "selector_top_k": 8,
        },
        "dspark": {"markov_rank": 16, "markov_head_type": "vanilla"},
    }
)

# A canary's draft runs on GPUs, whose attention kernels take heads of 64 or 128, and has more to
# learn than a twin's.
_CANARY_DRAFT: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "intermediate_size": 256,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
    }
)


def lacking(pair: Pair) -> str | None:
    """Why `pair` has no twin, whatever is installed; `None` when it can have one."""
    method = pair.speculative_method
    if method not in DRAFTS:
        return f"no twin for method {method}, only for {', '.join(DRAFTS)}"
    if pair.layout == "in-checkpoint":
        return "no twin for a draft inside the target's checkpoint, it has no file of its own"
    if pair.streams > 1:
        return f"no twin for {pair.streams} streams, the draft class reads one"
    return NO_TARGET.get(pair.arch)


def recipe(pair: Pair) -> dict[str, Any]:
    """Everything that determines the twin of `pair` besides dtype and library versions; JSON data.

    Raises:
        TwinError: the row has no twin; `lacking` says why.
    """
    if why := lacking(pair):
        raise TwinError(f"{pair.key}: {why}")
    changes = {**UNDECLARED.get(pair.arch, {}), **pair.hf_overrides}
    overrides = {"overrides": changes} if changes else {}
    return {
        "version": VERSION,
        "arch": pair.arch,
        "depth": pair.num_target_layers,
        "target": _target(pair),
        "vision": dict(VISION),
        "outer": dict(OUTER),
        "draft": _draft(pair),
        "method": pair.speculative_method,
        "heads": _heads(pair),
        "layout": pair.layout or LAYOUT,
        "target_layer_ids": list(pair.target_layer_ids),
        "block_size": pair.block_size or BLOCK,
        "from_anchor": pair.from_anchor,
        "mask_token_id": MASK,
        "notes": "; ".join(_notes(pair)),
        **overrides,
    }


def _target(pair: Pair) -> dict[str, Any]:
    depth = pair.num_target_layers
    patterns = {
        name: list(islice(cycle(pattern), depth))
        for name, pattern in PATTERNS.get(pair.arch, {}).items()
    }
    own = ARCHITECTURES.get(pair.arch, {})
    return {**TARGET, **own, **patterns, "num_hidden_layers": depth, "num_layers": depth}


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
        **(_CANARY_DRAFT if pair.kind == "canary" else {}),
    }


def _heads(pair: Pair) -> dict[str, Any]:
    """What the draft's config has beside its layers, and what it says of the anchor."""
    anchor = {
        "sample_from_anchor": pair.sample_from_anchor,
        "dspark_bonus_anchor": pair.bonus_anchor,
    }
    said = {name: value for name, value in anchor.items() if value is not None}
    return {**_HEADS[pair.speculative_method], **said}


def _draft_layers(pair: Pair) -> int | None:
    return pair.draft_num_hidden_layers or len(pair.draft_layer_types or ()) or None


def _notes(pair: Pair) -> list[str]:
    """Where the twin is less than the row, or says more."""
    layers = _draft_layers(pair)
    notes = []
    if pair.block_size is None:
        notes.append(f"block {BLOCK}, the row leaves it blank")
    if pair.layout is None:
        notes.append(f"layout {LAYOUT}, the row leaves it blank")
    if layers is None:
        notes.append(f"{DRAFT_LAYERS} draft layers, the row leaves their number blank")
    elif layers > MOST_DRAFT_LAYERS:
        notes.append(f"{MOST_DRAFT_LAYERS} draft layers of {layers}")
    if pair.draft_class != DRAFTS[pair.speculative_method]:
        notes.append(f"drafted for by {DRAFTS[pair.speculative_method]}, not {pair.draft_class}")
    if pair.draft_vocab_size is not None:
        notes.append("the draft has the target's vocabulary, not a reduced one")
    return notes
