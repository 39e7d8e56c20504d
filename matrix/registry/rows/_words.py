"""Words that many rows use."""

from __future__ import annotations

from typing import Final

__all__ = [
    "FULL",
    "QUOTED",
    "REPORTED",
    "SGLANG",
    "SLIDING",
    "SPECFORGE",
    "TARGET_CONFIG",
    "VLLM",
    "VLLM_TABLE",
    "Z_LAB_TAP",
]

FULL: Final = "full_attention"
SLIDING: Final = "sliding_attention"

VLLM: Final = "vllm-project/vllm: "
VLLM_TABLE: Final = f"{VLLM}tests/models/registry.py"
SGLANG: Final = "sgl-project/sglang: test/registered/spec/"
SPECFORGE: Final = "sgl-project/SpecForge: configs/"
TARGET_CONFIG: Final = "ai-dynamo/aiconfigurator: target config"

QUOTED: Final = "the draft's config.json, as quoted in public"
"""A config that was read where somebody quotes it, not in the repository itself."""
REPORTED: Final = "public reports on the draft; its config was not seen"

Z_LAB_TAP: Final = "z-lab/dflash: dflash/model.py, extract_context_feature"
"""z-lab's drafts are made to be fed by the authors' code. It reads `hidden_states[id + 1]` of a
transformers target, whose last entry is the normed state."""
