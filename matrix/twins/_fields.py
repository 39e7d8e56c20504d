"""What a twin's target is made of: fields offered to the config class that transformers has for it.

A class takes of the common ones those that it knows; an architecture that needs more has an entry.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ARCHITECTURES",
    "CONTEXT",
    "HIDDEN",
    "NO_TARGET",
    "OUTER",
    "PATTERNS",
    "TARGET",
    "UNDECLARED",
    "VISION",
    "VOCAB",
    "WINDOW",
]

VOCAB: Final = 512
HIDDEN: Final = 64
WINDOW: Final = 64
"""Sliding windows are cut to this, so that prompts of a test get past them."""
CONTEXT: Final = 4096

# 32 is the smallest head that attention kernels on CPUs take, 128 the one that linear attention
# asks for. A config class takes of these what it has a field for.
TARGET: Final[Mapping[str, Any]] = MappingProxyType(
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
VISION: Final[Mapping[str, Any]] = MappingProxyType(
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
        "mm_embed_dim": 32,
        "mm_posemb_size": 64,
        "output_proj_dims": 32,
    }
)

# What a multimodal class has beside its parts.
OUTER: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "tie_word_embeddings": False,
        "projector_hidden_size": 32,
        "projection_hidden_size": 32,
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

# Latent attention: every head has keys of its own, out of one small latent.
_MLA: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "num_key_value_heads": 4,
        "q_lora_rank": 32,
        "kv_lora_rank": 32,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 16,
        "n_group": 1,
        "topk_group": 1,
    }
)

# Hidden sizes per layer that only the smallest ones have; a pad token, which the forward compares
# tokens with.
_GEMMA4: Final[Mapping[str, Any]] = MappingProxyType(
    {"hidden_size_per_layer_input": 0, "pad_token_id": 0}
)

UNDECLARED: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {"Qwen3MoeForCausalLM": {"head_dim": 32}}
)
"""What an architecture's model and engines read, though its config class has no field for it."""

ARCHITECTURES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
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
        "Qwen3MoeForCausalLM": {"norm_topk_prob": True},
        # Its rope stretches a context of 4,096 by 32.
        "GptOssForCausalLM": {"max_position_embeddings": 131072, "intermediate_size": 32},
        "LagunaForCausalLM": {"gating": "per-head"},
        "Gemma4ForConditionalGeneration": _GEMMA4,
        "Gemma4UnifiedForConditionalGeneration": _GEMMA4,
        "KimiK25ForConditionalGeneration": _MLA,
        # Its indexer chooses the tokens to attend to: all of them, in a context this short.
        "GlmMoeDsaForCausalLM": {**_MLA, "index_head_dim": 32, "index_n_heads": 2},
        "LongcatFlashForCausalLM": {
            **_MLA,
            "ffn_hidden_size": 96,
            "expert_ffn_hidden_size": 32,
            "zero_expert_num": 4,
            "moe_topk": 2,
            "head_dim": 16,
            # Zero experts add the stream's own normed self, once for each unit of this.
            "routed_scaling_factor": 0.2,
        },
        "MiniMaxM3SparseForConditionalGeneration": {
            "dense_intermediate_size": 96,
            "shared_intermediate_size": 32,
            "rotary_dim": 16,
            "index_head_dim": 32,
            "index_n_heads": 2,
        },
        "NemotronHForCausalLM": {
            "mamba_num_heads": 4,
            "mamba_head_dim": 32,
            "n_groups": 1,
            "ssm_state_size": 32,
            "moe_shared_expert_intermediate_size": 32,
            # transformers clamps a time step to the least one in a prefill, but not in a decode step
            # of one token, and kernels don't at all: so no step may be that short.
            "time_step_min": 1e-9,
            "time_step_floor": 0.001,
        },
        "HunYuanVLForConditionalGeneration": {
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [4, 4, 4, 4],
            }
        },
        "InklingForConditionalGeneration": {
            "swa_num_attention_heads": 4,
            "swa_num_key_value_heads": 2,
            "swa_head_dim": 32,
            "sliding_window_size": WINDOW,
        },
    }
)
"""What an architecture needs beyond the common part; those that need nothing aren't listed."""

NO_TARGET: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Qwen3OmniMoeForConditionalGeneration": "no twin for a target of two models, a thinker and a "
        "talker",
    }
)

_LETTERS: Final = {"M": "linear_attention", "E": "moe", "*": "full_attention"}

PATTERNS: Final[Mapping[str, Mapping[str, tuple[Any, ...]]]] = MappingProxyType(
    {
        # `hybrid_override_pattern` of nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16, of the same shape.
        "NemotronHForCausalLM": {
            "layers_block_type": tuple(
                _LETTERS[letter]
                for letter in "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
            ),
        },
        # Short convolutions, with attention in every third layer or so.
        "Lfm2ForCausalLM": {"layer_types": ("conv", "conv", "full_attention")},
        "Lfm2MoeForCausalLM": {"layer_types": ("conv", "conv", "full_attention")},
        # As in the config of poolside/Laguna-XS-2.1: more heads where the window is.
        "LagunaForCausalLM": {
            "layer_types": ("full_attention", *("sliding_attention",) * 3),
            "num_attention_heads_per_layer": (4, 6, 6, 6),
        },
    }
)
"""Per-layer fields, repeated down to the depth, where the config class doesn't make them itself."""
