"""Small trained pairs, whose accepted drafts say which capture fault an engine has."""

from __future__ import annotations

from typing import Any, Final

from matrix.registry._pair import Pair

__all__ = ["PAIRS"]

_HEADS: Final = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64}
"""Attention kernels on GPUs take heads of 64 or 128."""


def _canary(name: str, arch: str, notes: str, **more: Any) -> Pair:
    return Pair(
        key=f"canary-{name}",
        kind="canary",
        is_available_online=False,
        target=f"canary/{name}",
        speculative_model=f"canary/{name}-dflash",
        arch=arch,
        num_target_layers=8,
        target_layer_ids=(1, 3, 5),
        layout="nested",
        block_size=10,
        draft_num_hidden_layers=2,
        final_tap="raw",
        final_tap_source="trained here, on raw states",
        source="trained here: `nox -s train-canaries`",
        confidence="config",
        notes=notes,
        **more,
    )


PAIRS: Final[tuple[Pair, ...]] = (
    _canary("qwen3", "Qwen3ForCausalLM", "dense", hf_overrides=_HEADS),
    _canary(
        "llama", "LlamaForCausalLM", "dense, without norms on queries and keys", hf_overrides=_HEADS
    ),
    _canary("qwen3-moe", "Qwen3MoeForCausalLM", "mixture of experts", hf_overrides=_HEADS),
    _canary("qwen3.5", "Qwen3_5ForCausalLM", "a hybrid target, linear and full attention"),
    _canary(
        "window",
        "Qwen3ForCausalLM",
        "every draft layer sees a window of 64 tokens, probed past it",
        hf_overrides=_HEADS,
        draft_sliding_window=64,
        draft_layer_types=("sliding_attention", "sliding_attention"),
    ),
)
