"""Where a stale plane may come from: what earlier forwards delivered, and what they should have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrix.contract._bench import Bench, Run
from matrix.contract._explain import Observed
from matrix.engines import Array, Forward

__all__ = ["Earlier", "split"]

FloatArray = NDArray[np.floating[Any]]


def split(arrays: Sequence[Array], width: int) -> tuple[tuple[FloatArray, ...], str] | None:
    """Planes `[T, H]` out of one concatenated array or one array a plane; `None`: no such split."""
    if not arrays:
        return (), ""
    parts = [array.numpy() for array in arrays]
    if any(part.ndim != 2 or part.shape[1] % width for part in parts):
        return None
    planes = [plane for part in parts for plane in np.split(part, part.shape[1] // width, axis=1)]
    return tuple(planes), arrays[0].dtype


class Earlier(Sequence[tuple[FloatArray, ...]]):
    """Planes as forwards before one of a run's delivered them.

    Gathered when first asked for: it takes the reference a forward each, and most faults are named
    without.
    """

    def __init__(self, bench: Bench, run: Run, index: int, seen: Observed) -> None:
        self._gather = partial(_planes_before, bench, run, index, seen)

    @cached_property
    def _planes(self) -> tuple[tuple[FloatArray, ...], ...]:
        return tuple(self._gather())

    def __len__(self) -> int:
        return len(self._planes)

    def __getitem__(self, index: Any) -> Any:
        return self._planes[index]


def _planes_before(
    bench: Bench, run: Run, index: int, seen: Observed
) -> Iterator[tuple[FloatArray, ...]]:
    """Planes as forwards before this one delivered them: of the last runs, then of this one.

    Rows that are due again, at the same position after the same tokens, are left out: whatever is
    wrong with them was wrong there too, which doesn't make them stale.
    """
    for old in _runs_before(bench, run):
        same = _common(old.sequence, run.sequence)
        end = min(same, seen.position + len(seen.planes[0])) if seen.planes else 0
        for forward in old.generation.forwards:
            for planes in [*_delivered(bench, forward), *_due(bench, old, forward)]:
                positions = forward.position + np.arange(len(planes[0]))
                other = (positions < seen.position) | (positions >= end)
                yield tuple(plane[other] for plane in planes)
    for forward in run.generation.forwards[:index]:
        yield from _delivered(bench, forward)
        yield from _due(bench, run, forward)


def _due(bench: Bench, run: Run, forward: Forward) -> Iterator[tuple[FloatArray, ...]]:
    """The planes that a forward should have delivered, rejected rows included.

    A buffer that lags behind hands over what was right one forward earlier, which no one has seen.
    """
    steps = {step.position: step for step in run.generation.steps}
    tokens = list(run.sequence[: forward.position + 1])
    if forward.kind == "verify" and forward.position in steps:
        tokens += steps[forward.position].drafted
    elif forward.kind == "prefill":
        rows = max((array.shape[0] for array in forward.handed), default=0)
        tokens = run.request.prompt[: forward.position + rows]
    if forward.position >= len(tokens):
        return
    layers = bench.states(tokens).layers
    ids = [i for i in run.ids or bench.ids if type(i) is int and 0 <= i < len(layers)]
    if ids:
        yield tuple(layers[i, forward.position :] for i in ids)


def _runs_before(bench: Bench, run: Run) -> Iterator[Run]:
    for batch in bench.recent:
        if bench.has("batch") and any(old is run for old in batch):
            return  # requests that ran in one step are not before one another
        for old in batch:
            if old is run:
                return
            yield old


def _delivered(bench: Bench, forward: Forward) -> Iterator[tuple[FloatArray, ...]]:
    planes, _ = split(forward.handed, bench.twin.width) or ((), "")
    if planes and len({len(plane) for plane in planes}) == 1:
        yield planes


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
