"""How vLLM is started: what each settings name means, and a start's arguments."""

from __future__ import annotations

from typing import Any, Final

from matrix.engines._messages import StartSpec

__all__ = ["SETTINGS", "arguments"]

CHUNK: Final = 64
"""Tokens of one step: small enough that short prompts are prefilled in chunks."""
BLOCK: Final = 32
"""Cache block; the CPU takes multiples of 32, and short prompts must fill one."""

_COMMON: Final[dict[str, Any]] = {
    "runner": "v1/worker/gpu_model_runner",
    "mode": "eager",
    "kv_dtype": "auto",
    "prefix_caching": True,
    "block_size": BLOCK,
    "max_num_batched_tokens": CHUNK,
    "max_num_seqs": 4,
    "max_model_len": 1024,
    "async_scheduling": False,
    "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1,
}
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "main": _COMMON,
    "plain": _COMMON | {"speculation": "off"},
    "public": _COMMON | {"speculation": "extract_hidden_states"},
    "tp2": _COMMON | {"tensor_parallel_size": 2},
    "pp2": _COMMON | {"pipeline_parallel_size": 2},
}
"""Settings name -> what it means here."""


def arguments(spec: StartSpec) -> dict[str, Any]:
    """Keyword arguments of `vllm.LLM`."""
    meant = SETTINGS[spec.settings]
    given: dict[str, Any] = {
        "model": spec.target,
        "dtype": spec.dtype,
        "trust_remote_code": spec.trust_remote_code,
        "skip_tokenizer_init": True,
        "enforce_eager": True,
        "enable_prefix_caching": True,
        "block_size": BLOCK,
        "max_num_batched_tokens": CHUNK,
        "max_num_seqs": meant["max_num_seqs"],
        "max_model_len": spec.max_model_len,
        "async_scheduling": False,
        "disable_log_stats": False,
        "seed": 0,
        "tensor_parallel_size": meant["tensor_parallel_size"],
        "pipeline_parallel_size": meant["pipeline_parallel_size"],
    }
    if spec.draft is not None:
        given["per_request_spec_decode_metrics"] = "detailed"
        given["speculative_config"] = {
            "method": spec.method,
            "model": spec.draft,
            "num_speculative_tokens": spec.drafts,
        }
    return given | spec.args
