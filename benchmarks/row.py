"""Where the time of a whole row goes."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks._figure import RATIO, Figure
from benchmarks._scene import cold_cache, plan, vllm_python
from matrix.engines import Worker
from matrix.reference import Reference
from matrix.results import Outcome
from matrix.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["figures"]

_PAIR = "tiny-qwen3"


def figures() -> list[Figure]:
    """A row on each engine; measured once, as a row takes its time."""
    total, spent, judged = _row("transformers", sys.executable)
    driver = total - sum(spent.values())
    found = [
        *_parts("transformers", total, spent, judged),
        Figure("row, transformers, the driver itself / whole", RATIO, driver / total, 0.5),
    ]
    if python := vllm_python():
        total, spent, judged = _row("vllm", python)
        bare = sum(spent[part] for part in ("start", "engine calls", "reference"))
        found += [
            *_parts("vllm", total, spent, judged),
            Figure("row, vllm, whole / start + calls + reference", RATIO, total / bare, 1.25),
        ]
    return found


def _parts(engine: str, total: float, spent: dict[str, float], judged: int) -> list[Figure]:
    """Where the seconds of a row went; the reference may work while an engine call runs."""
    driver = total - sum(spent.values())
    return [
        Figure(f"row, {engine}, whole, cold", "s", total),
        Figure(f"row, {engine}, a judged clause", "s", total / judged),
        *(Figure(f"row, {engine}, {part}", "s", took) for part, took in sorted(spent.items())),
        Figure(f"row, {engine}, the driver itself", "s", driver),
    ]


def _row(engine: str, python: str) -> tuple[float, dict[str, float], int]:
    """Seconds of one cold row, the same by whom the driver waited for, and clauses judged."""
    with cold_cache() as folder, _timed() as spent:
        began = time.perf_counter()
        with (
            closing(Reference(folder / "reference.log")) as reference,
            Session(plan(engine, python, _PAIR, folder / "run"), "bench", reference) as session,
        ):
            cells = session.run()
        total = time.perf_counter() - began
    return total, dict(spent), sum(cell.outcome is not Outcome.SKIP for cell in cells)


@contextmanager
def _timed() -> Iterator[dict[str, float]]:
    """Seconds that the driver waits for workers, by part."""
    spent: dict[str, float] = defaultdict(float)
    call = Worker.call

    def timed(self: Worker, method: str, *args: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return call(self, method, *args, **options)
        finally:
            spent[_part(self.served, method)] += time.perf_counter() - began

    Worker.call = timed  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        Worker.call = call  # type: ignore[method-assign]


def _part(served: str, method: str) -> str:
    """What a call is for; the first call of a worker also waits for its imports."""
    if served == "reference":
        return "twin" if method == "twin" else "reference"
    return "start" if method in ("identify", "start") else "engine calls"
