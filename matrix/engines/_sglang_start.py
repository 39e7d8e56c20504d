"""How SGLang is started: what each settings name means, and a start's arguments."""

from __future__ import annotations

from typing import Any, Final

from sglang.srt.server_args import ServerArgs

from matrix.engines._messages import StartSpec

__all__ = ["SETTINGS", "arguments", "resolved", "speculative"]

CHUNK: Final = 64
"""Tokens of one prefill step: small enough that short prompts are prefilled in chunks."""
TOKENS: Final = 4096
"""Room of the KV cache, in tokens."""

_COMMON: Final[dict[str, Any]] = {
    "runner": "Scheduler and ModelRunner, in the worker's own process",
    "mode": "eager",
    "kv_dtype": "auto",
    "prefix_caching": True,
    "chunked_prefill_size": CHUNK,
    "max_total_tokens": TOKENS,
    "max_running_requests": 4,
    "attention_backend": "torch_native on a CPU, where the row says nothing else",
    "overlap_schedule": False,
    "tp_size": 1,
    "pp_size": 1,
}
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "main": _COMMON
    | {
        "speculation": "DFLASH with the draft on a GPU; on a CPU none, and planes by the public "
        "capture mode (enable_return_aux_hidden_states)",
        "ids": "the row's as at start; others through the draft's resolver and "
        "configure_aux_hidden_state_capture, where the capture mode's own count of planes is off",
    },
    "plain": _COMMON | {"speculation": "off"},
}
"""Settings name -> what it means here."""


def arguments(spec: StartSpec) -> dict[str, Any]:
    """What every start of a target gives to `ServerArgs`; the row's own arguments go last."""
    on_cpu = {"attention_backend": "torch_native", "sampling_backend": "pytorch"}
    return {
        "model_path": spec.target,
        "dtype": spec.dtype,
        "device": spec.device,
        "trust_remote_code": spec.trust_remote_code,
        "skip_tokenizer_init": True,
        "context_length": spec.max_model_len,
        "max_total_tokens": TOKENS,
        "max_running_requests": 4,
        "mem_fraction_static": 0.1,
        "chunked_prefill_size": CHUNK,
        "disable_cuda_graph": True,
        "disable_overlap_schedule": True,
        # Its watchdog kills the process, and a kernel in the interpreter may take its time.
        "watchdog_timeout": 3600,
        "random_seed": 0,
        **(on_cpu if spec.device == "cpu" else {}),
        **spec.args,
    }


def speculative(spec: StartSpec) -> dict[str, Any]:
    """What a start with the draft gives besides."""
    return {
        "speculative_algorithm": "DFLASH",
        "speculative_draft_model_path": spec.draft,
        "speculative_num_draft_tokens": spec.drafts + 1,
    }


def resolved(options: dict[str, Any]) -> ServerArgs:
    """Arguments as SGLang completes and checks them; what it refuses, it raises."""
    args = ServerArgs(**options)
    args.resolve_once()
    return args
