"""The line that starts a server on a row's target and draft, such that the engine `server` fits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from matrix.registry import Pair
from matrix.twins import Twin, served_as

__all__ = ["ENGINES", "serve_args"]

MAX_MODEL_LEN: Final = 1024
"""Tokens of a request that a server must have room for."""


def serve_args(
    engine: str, pair: Pair, twin: Twin, port: int, *, planes: bool = False
) -> list[str]:
    """The words of the line; the server listens on this machine alone.

    Args:
        engine: one of `ENGINES`.
        pair: the row; its own arguments for the engine come last.
        twin: its target and draft, built.
        port: where the server will listen.
        planes: SGLang's public capture mode instead of a draft: answers hold the planes.
    """
    words = ENGINES[engine](pair, twin, port)
    if engine == "sglang":
        words += _capturing(twin) if planes else _drafting(twin)
    return [*words, *_flags(pair.engine_args.get(engine, {}))]


def _vllm(pair: Pair, twin: Twin, port: int) -> list[str]:
    speculative = {
        "method": pair.speculative_method,
        "model": twin.draft,
        "num_speculative_tokens": twin.drafts,
    }
    return [
        *("python", "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", twin.target, "--served-model-name", served_as(pair, twin)),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--dtype", twin.dtype, "--max-model-len", str(MAX_MODEL_LEN), "--max-num-seqs", "8"),
        *("--skip-tokenizer-init", "--enforce-eager"),
        *("--per-request-spec-decode-metrics", "detailed", "--enable-prompt-tokens-details"),
        *("--speculative-config", json.dumps(speculative)),
    ]


def _sglang(pair: Pair, twin: Twin, port: int) -> list[str]:
    return [
        *("python", "-m", "sglang.launch_server"),
        *("--model-path", twin.target, "--served-model-name", served_as(pair, twin)),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--dtype", twin.dtype, "--context-length", str(MAX_MODEL_LEN)),
        *("--max-running-requests", "8", "--skip-tokenizer-init", "--disable-cuda-graph"),
        *("--speculative-algorithm", "DSPARK" if pair.speculative_method == "dspark" else "DFLASH"),
    ]


def _drafting(twin: Twin) -> list[str]:
    return [
        *("--speculative-draft-model-path", twin.draft),
        *("--speculative-num-draft-tokens", str(twin.drafts + 1)),
    ]


def _capturing(twin: Twin) -> list[str]:
    ids = map(str, twin.layer_ids)
    return [
        *("--enable-return-aux-hidden-states", "--return-aux-hidden-state-layer-ids", *ids),
        # Of a prompt in several chunks the answer would hold the last one's planes alone.
        *("--chunked-prefill-size", str(2 * MAX_MODEL_LEN)),
    ]


ENGINES: Final[Mapping[str, Callable[[Pair, Twin, int], list[str]]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
}
"""Engine -> the words that start its server."""


def _flags(args: Mapping[str, Any]) -> list[str]:
    """A row's own arguments, as options of a command line."""
    words: list[str] = []
    for name, value in args.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-", 1))
        else:
            words += [option, value if isinstance(value, str) else json.dumps(value)]
    return words
