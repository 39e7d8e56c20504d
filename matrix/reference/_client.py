"""The reference as the driver sees it: one process, never injected, shared by every row."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from matrix.engines import Worker
from matrix.errors import EngineError, ReferenceFailed, WorkerGone
from matrix.reference._arrays import GreedyRun, StateArrays
from matrix.reference._states import States
from matrix.registry import Pair
from matrix.twins import Twin

__all__ = ["Reference"]

T = TypeVar("T")


@dataclass
class Reference:
    """Twins, layer states and greedy continuations from a process of its own.

    Raises (from every method):
        HarnessError: the reference could not say, or its process ended (`ReferenceFailed`); it is
            started anew at the next call.
    """

    log: Path
    python: str = sys.executable
    deadline: float = 300.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _worker: Worker | None = None

    def wake(self) -> None:
        """Start the process and return at once: its imports take as long as an engine's."""
        with self._lock:
            self._running()

    def identify(self) -> dict[str, str]:
        """Versions of its python, torch and transformers."""
        return self._call("identify", returns=dict[str, str])

    def twin(self, pair: Pair, dtype: str) -> Twin:
        """The row's twin, built or from the cache."""
        return self._call("twin", pair, dtype, returns=Twin)

    def states(self, twin: Twin, tokens: list[int], *, detail: bool = False) -> States:
        """Layer states of one token sequence."""
        args = (twin.target, tokens, twin.dtype, detail)
        return States.from_arrays(self._call("states", *args, returns=StateArrays))

    def greedy(self, twin: Twin, prompt: list[int], max_tokens: int) -> GreedyRun:
        """The target's own greedy continuation of a prompt."""
        return self._call(
            "greedy", twin.target, prompt, max_tokens, [], twin.dtype, returns=GreedyRun
        )

    def close(self) -> None:
        """End the process."""
        with self._lock:
            if self._worker:
                self._worker.close()
            self._worker = None

    def _call(self, method: str, *args: Any, returns: type[T]) -> T:
        with self._lock:
            try:
                return self._running().call(method, *args, returns=returns, deadline=self.deadline)
            except (EngineError, WorkerGone) as error:
                raise ReferenceFailed(f"reference: {method}: {error}") from error

    def _running(self) -> Worker:
        if self._worker is None or self._worker.gone:
            self._worker = Worker("reference", self.log, self.python)
        return self._worker
