"""How vLLM is started: what each settings name means, and a start's arguments."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from transformers import AutoConfig
from vllm.platforms import current_platform

from matrix.engines._messages import Array, StartSpec
from matrix.engines._tensors import array
from matrix.engines._vllm_ranks import EXTENSION
from matrix.errors import AdapterError

__all__ = ["SETTINGS", "arguments", "lacks", "public"]

CHUNK: Final = 64
"""Tokens of one step: small enough that short prompts are prefilled in chunks."""
BLOCK: Final = 32
"""Cache block; the CPU takes multiples of 32, and short prompts must fill one."""

_PACKAGE: Final = Path(__file__).parents[1]

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


def arguments(spec: StartSpec, boundaries: list[int | float]) -> dict[str, Any]:
    """Keyword arguments of `vllm.LLM`; `boundaries` are those that the main start resolved."""
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
    if max(meant["tensor_parallel_size"], meant["pipeline_parallel_size"]) > 1:
        given["distributed_executor_backend"] = "mp"
        _on_path()
        given["worker_extension_cls"] = EXTENSION
    if spec.settings == "public":
        given |= _public(boundaries)
    elif spec.draft is not None:
        given["per_request_spec_decode_metrics"] = "detailed"
        given["speculative_config"] = {
            "method": spec.method,
            "model": spec.draft,
            "num_speculative_tokens": spec.drafts,
        }
    return given | _limits(spec) | spec.args


def _on_path() -> None:
    """Let the ranks import this package and nothing beside it: they are handed this path."""
    folder = Path(tempfile.mkdtemp(prefix="dflash-matrix-"))
    (folder / "matrix").symlink_to(_PACKAGE)
    sys.path.append(str(folder))


def _limits(spec: StartSpec) -> dict[str, Any]:
    """What a target can't have here.

    Without a tokenizer there is nothing to read images with. On a CPU, prefix caching of linear
    attention calls a Triton kernel that isn't there (`'function' object is not subscriptable`).
    """
    config = AutoConfig.from_pretrained(spec.target)
    text, given = config.get_text_config(), dict[str, Any]()
    if text is not config:
        given["limit_mm_per_prompt"] = {"image": 0, "video": 0}
    layers: list[str] = getattr(text, "layer_types", None) or []
    if current_platform.is_cpu() and "linear_attention" in layers:
        given["enable_prefix_caching"] = False
    return given


def lacks(config: Any) -> dict[str, str]:
    """What a start can't have by its own arguments."""
    found = {}
    if not config.cache_config.enable_prefix_caching:
        found["prefix-cache"] = "the start has enable_prefix_caching off"
    if config.model_config.is_hybrid:
        found["drafts"] = "recurrent states have room for the drafts of the start alone"
    return found


def _public(boundaries: list[int | float]) -> dict[str, Any]:
    """VLLM's own way to get planes out: a method that drafts nothing, and a connector to files."""
    if not boundaries:
        raise AdapterError("the public way takes boundaries, which the main start resolves first")
    return {
        "speculative_config": {
            "method": "extract_hidden_states",
            "num_speculative_tokens": 1,
            "draft_model_config": {"hf_config": {"eagle_aux_hidden_state_layer_ids": boundaries}},
        },
        "kv_transfer_config": {
            "kv_connector": "ExampleHiddenStatesConnector",
            "kv_role": "kv_producer",
            "kv_connector_extra_config": {"shared_storage_path": tempfile.mkdtemp()},
        },
    }


def public(output: Any) -> list[Array]:
    """The planes that the connector wrote for one request, `[T, H]` each; none without it."""
    path = ((output.kv_transfer_params if output else None) or {}).get("hidden_states_path")
    if path is None:
        return []
    from vllm.distributed.kv_transfer.kv_connector.v1.example_hidden_states_connector import (
        load_hidden_states,
    )

    states = load_hidden_states(path)["hidden_states"]
    return [array(states[:, plane]) for plane in range(states.shape[1])]
