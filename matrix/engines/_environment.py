"""What each engine's worker finds in its environment, unless the user set it already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["ENVIRONMENT"]

_QUIET: Final = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

ENVIRONMENT: Final[Mapping[str, Mapping[str, str]]] = {
    "transformers": _QUIET,
    # Where there is no GPU, its worker sets more: see `_standins`.
    "sglang": _QUIET,
    "server": {},
    "vllm": _QUIET
    | {
        # The core in the worker's own process: a planted fault and the watch must reach it.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        # Its default binds threads to cores, which makes a busy machine several times slower.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        # Even an eager start compiles some helpers, in each rank anew, for up to a minute.
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_HOST_IP": "127.0.0.1",
    },
}
"""Engine -> variables."""
