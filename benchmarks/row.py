"""Where the time of a whole row goes."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks._figure import RATIO, Figure
from benchmarks._scene import cold_cache, plan
from matrix.engines import Worker
from matrix.reference import Reference
from matrix.results import Outcome
from matrix.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["figures"]

_PAIR = "tiny-qwen3"


def figures() -> list[Figure]:
    """One cold row, split by whom the driver waited for; measured once, as a row takes its time."""
    with cold_cache() as folder, _timed() as spent:
        began = time.perf_counter()
        with (
            closing(Reference(folder / "reference.log")) as reference,
            Session(plan(_PAIR, folder / "run"), "bench", reference) as session,
        ):
            cells = session.run()
        total = time.perf_counter() - began
    judged = sum(cell.outcome is not Outcome.SKIP for cell in cells)
    rest = total - sum(spent.values())
    return [
        Figure("row, whole, cold", "s", total),
        Figure("row, a judged clause", "s", total / judged),
        *(Figure(f"row, {part}", "s", took) for part, took in sorted(spent.items())),
        Figure("row, the driver itself", "s", rest),
        Figure("row, the driver itself / whole", RATIO, rest / total, 0.5),
    ]


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
