"""Other methods that read the same hand-over: EAGLE3, Domino, DFlare."""

from __future__ import annotations

from typing import Final

from matrix.registry._pair import Baseline, Pair
from matrix.registry.rows._words import QUOTED, SGLANG, SPECFORGE, VLLM

__all__ = ["PAIRS"]

_DOMINO_TEST: Final = f"{SGLANG}dflash/test_dflash_domino.py"

PAIRS: Final = (
    Pair(
        key="qwen3-8b-domino-b16",
        target="Qwen/Qwen3-8B",
        speculative_model="Huang2020/Qwen3-8B-Domino-b16",
        speculative_method="domino",
        arch="Qwen3ForCausalLM",
        num_target_layers=36,
        target_layer_ids=(1, 9, 17, 25, 33),
        layout="nested",
        hidden_size=4096,
        vocab_size=151936,
        block_size=16,
        mask_token_id=151669,
        engine_args={
            "sglang": {
                "attention_backend": "triton",
                "speculative_draft_attention_backend": "triton",
                "disable_overlap_schedule": True,
                "cuda_graph_backend_decode": "disabled",
                "cuda_graph_backend_prefill": "disabled",
            }
        },
        baselines=(Baseline(4.0, _DOMINO_TEST, dataset="gsm8k", is_floor=True),),
        source=f"{SPECFORGE}qwen3-8b-domino.json; {_DOMINO_TEST}",
        confidence="config",
        notes="ids and mask id from the template that it was trained with",
    ),
    Pair(
        key="qwen3.5-4b-domino",
        target="Qwen/Qwen3.5-4B",
        speculative_model="sgl-project/SpecForge:configs/qwen3.5-4b-domino.json",
        is_available_online=False,
        speculative_method="domino",
        arch="Qwen3_5ForConditionalGeneration",
        arch_inferred=True,
        num_target_layers=32,
        target_layer_ids=(3, 11, 19, 27, 31),
        layout="nested",
        hidden_size=2560,
        vocab_size=248320,
        block_size=16,
        mask_token_id=248070,
        source=f"{SPECFORGE}qwen3.5-4b-domino.json",
        confidence="config",
        notes="a training template; taps the last layer, an IndexError on SGLang (sgl-project/sglang#32204)",
    ),
    Pair(
        key="gemma-4-e4b-it-dflare",
        target="google/gemma-4-E4B-it",
        speculative_model="a user's DFlare export for gemma-4-E4B-it",
        is_available_online=False,
        speculative_method="dflare",
        arch="Gemma4ForConditionalGeneration",
        arch_inferred=True,
        num_target_layers=42,
        target_layer_ids=(0, 5, 10, 15, 20, 25, 30, 35, 38),
        id_semantics="boundary",
        layout="speculators",
        hidden_size=2560,
        vocab_size=262144,
        fc_in=23040,
        block_size=16,
        num_speculative_tokens=15,
        mask_token_id=4,
        source=QUOTED,
        confidence="config",
        notes="taps the first layer; its file says 1, 6, ..., 36, 39; hidden_size in the file is 23040, nine taps of 2,560, "
        "the true width stands in draft_hidden_size",
    ),
    Pair(
        key="qwen3-8b-speculator.eagle3",
        target="Qwen/Qwen3-8B",
        speculative_model="RedHatAI/Qwen3-8B-speculator.eagle3",
        speculative_method="eagle3",
        draft_class="Eagle3LlamaForCausalLM",
        arch="Qwen3ForCausalLM",
        num_target_layers=36,
        target_layer_ids=(1, 17, 32),
        id_semantics="boundary",
        layout="speculators",
        hidden_size=4096,
        vocab_size=151936,
        draft_vocab_size=32000,
        baselines=(Baseline(2.26, f"{VLLM}test_acceptance_length.py"),),
        revision_prefix="08610ff",
        source=QUOTED,
        confidence="config",
        notes="the engine's default taps, boundaries 2, 18, 33",
    ),
    Pair(
        key="gpt-oss-120b-eagle3-v3",
        target="openai/gpt-oss-120b",
        speculative_model="nvidia/gpt-oss-120b-Eagle3-v3",
        speculative_method="eagle3",
        draft_class="Eagle3LlamaForCausalLM",
        arch="GptOssForCausalLM",
        arch_inferred=True,
        num_target_layers=36,
        target_layer_ids=(23, 29, 35),
        id_semantics="boundary",
        layout="flat",
        ids_key="eagle_aux_hidden_state_layer_ids",
        hidden_size=2880,
        vocab_size=201088,
        source="sgl-project/sglang#32334",
        notes="taps the last layer; norm_before_fc true; boundaries 24, 30, 36",
    ),
)
