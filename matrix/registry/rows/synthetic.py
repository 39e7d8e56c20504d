"""Pairs that are made up, so that an architecture or a pattern of taps is covered."""

from __future__ import annotations

from typing import Final

from matrix.registry._pair import Pair
from matrix.registry.rows._words import Z_LAB_TAP

__all__ = ["PAIRS"]

# No hook up to 0.5.17, then one without the +1, then one that hid the right one, up to 0.5.21.
_TEXT_ONLY: Final = "sgl-project/sglang#34771, sgl-project/sglang#38096"

PAIRS: Final = (
    Pair(
        key="synthetic-qwen3-first-last",
        kind="synthetic",
        is_available_online=False,
        target="synthetic/qwen3",
        speculative_model="synthetic/qwen3-first-last-dflash",
        arch="Qwen3ForCausalLM",
        num_target_layers=36,
        target_layer_ids=(0, 9, 17, 25, 35),
        layout="nested",
        block_size=8,
        final_tap="normed",
        final_tap_source=Z_LAB_TAP,
        source="the tap pattern of XiaomiMiMo/MiMo-V2.5, whose target transformers doesn't know",
        confidence="inferred",
        notes="taps the first and the last layer on a plain dense target",
    ),
    Pair(
        key="synthetic-qwen3-moe",
        kind="synthetic",
        is_available_online=False,
        target="synthetic/qwen3-moe",
        speculative_model="synthetic/qwen3-moe-dflash",
        arch="Qwen3MoeForCausalLM",
        num_target_layers=48,
        target_layer_ids=(0, 11, 22, 33, 44),
        layout="nested",
        block_size=8,
        final_tap="normed",
        final_tap_source=Z_LAB_TAP,
        source="the depth of Qwen/Qwen3-Coder-30B-A3B-Instruct; the taps of "
        "RedHatAI/Qwen3-30B-A3B-speculator.dflash",
        confidence="inferred",
        notes="taps the first layer of a MoE target, in a layout that the authors' code reads",
    ),
    Pair(
        key="synthetic-qwen3.5-text",
        kind="synthetic",
        is_available_online=False,
        target="synthetic/qwen3.5-text",
        speculative_model="synthetic/qwen3.5-text-dflash",
        arch="Qwen3_5ForCausalLM",
        num_target_layers=32,
        target_layer_ids=(1, 5, 9, 13, 17, 21, 25, 29),
        layout="nested+rope",
        block_size=16,
        final_tap="normed",
        final_tap_source=Z_LAB_TAP,
        source=f"{_TEXT_ONLY}; depth and taps of z-lab/Qwen3.5-4B-DFlash",
        confidence="inferred",
        notes="the text-only dense wrapper",
    ),
    Pair(
        key="synthetic-qwen3.5-moe-text",
        kind="synthetic",
        is_available_online=False,
        target="synthetic/qwen3.5-moe-text",
        speculative_model="synthetic/qwen3.5-moe-text-dflash",
        arch="Qwen3_5MoeForCausalLM",
        num_target_layers=40,
        target_layer_ids=(1, 6, 11, 16, 22, 27, 32, 37),
        layout="nested+rope",
        block_size=16,
        final_tap="normed",
        final_tap_source=Z_LAB_TAP,
        source=f"{_TEXT_ONLY}; depth and taps of the newer z-lab/Qwen3.5-35B-A3B-DFlash",
        confidence="inferred",
        notes="the text-only MoE wrapper",
    ),
    Pair(
        key="synthetic-qwen3-ranks",
        kind="synthetic",
        is_available_online=False,
        target="synthetic/qwen3-ranks",
        speculative_model="synthetic/qwen3-ranks-dflash",
        arch="Qwen3ForCausalLM",
        num_target_layers=8,
        target_layer_ids=(1, 3, 5),
        block_size=8,
        final_tap="raw",
        final_tap_source="made up; every engine but the authors' code hands out the raw state",
        starts=("public", "tp2", "pp2"),
        source="made up: small, so that starts over several ranks cost little",
        confidence="inferred",
        notes="asks for the public way and for two ranks, tensor and pipeline parallel",
    ),
    *(
        Pair(
            key=key,
            kind="synthetic",
            is_available_online=False,
            target=f"synthetic/{key.removeprefix('synthetic-')}",
            speculative_model=f"synthetic/{key.removeprefix('synthetic-')}-dflash",
            arch=arch,
            num_target_layers=8,
            target_layer_ids=(1, 3, 5),
            block_size=8,
            final_tap="raw",
            final_tap_source="made up; every engine but the authors' code hands out the raw state",
            source="made up: two periods of the layer pattern, so that half precision can tell "
            "the layers apart and a whole row costs little on a CPU",
            confidence="inferred",
            notes="a hybrid target, linear and full attention",
        )
        for key, arch in (
            ("synthetic-qwen3-next-small", "Qwen3NextForCausalLM"),
            ("synthetic-qwen3.5-small", "Qwen3_5ForCausalLM"),
            ("synthetic-qwen3.5-moe-small", "Qwen3_5MoeForCausalLM"),
        )
    ),
)
