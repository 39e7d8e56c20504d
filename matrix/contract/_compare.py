"""Delivered planes against the reference: the cheap half of judging, which says right or wrong.

The rules are those of the judging contract. Full precision: every row within the tolerance, and
no other layer nearer. Narrower dtypes: the layer asked for must be the nearest by far (at most
half as far as the runner-up), since a fixed tolerance can't tell noise from a neighbour there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from matrix.errors import HarnessError
from matrix.faults import Phase
from matrix.reference import States

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


__all__ = [
    "CLEAR",
    "Comparison",
    "Context",
    "FloatArray",
    "Observed",
    "PlaneMatch",
    "compare",
    "is_coarse",
    "relative",
    "right_states",
    "rounding",
    "shape_problem",
    "split_planes",
]

FloatArray = NDArray[np.floating[Any]]

CLEAR: Final = 0.5
"""A candidate is clear when it is at most this many times as far as the runner-up."""

_MANTISSA: Final = {
    "float64": 52,
    "float32": 23,
    "float16": 10,
    "bfloat16": 7,
    "float8_e4m3fn": 3,
    "float8_e5m2": 2,
}
_BLOCK = 1 << 22  # elements of float64 work at once: 32 MiB, whatever the model's width
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Observed:
    """What was delivered for one sequence in one token range."""

    planes: tuple[FloatArray, ...]
    """Each `[T, H]`, in the order delivered; or one array `[T, n * H]` of n planes side by side."""
    position: int
    """The sequence position of row 0."""
    dtype: str
    """The dtype in which the engine held them: `float32`, `bfloat16`, ..."""
    phase: Phase = Phase.ALL
    """Where it was seen."""


@dataclass(frozen=True)
class Context:
    """What the planes are judged by."""

    states: States
    """The reference of this very sequence; without the detail arrays fewer faults have names."""
    asked: tuple[int, ...]
    """The layer ids asked for, in order, repeats included."""
    others: tuple[States, ...] = ()
    """The states of the run's other requests."""
    earlier: Sequence[tuple[FloatArray, ...]] = ()
    """Planes of earlier forwards as delivered, of other tokens or other positions than these."""
    final: Literal["raw", "normed", "either"] = "raw"
    """What is right for the last layer: its raw output, the normed one, or either."""
    tolerance: float = 1e-4
    """Largest relative L2 distance of a right row, in full precision."""


@dataclass(frozen=True)
class PlaneMatch:
    """One plane against every layer."""

    asked: int
    matched: int
    """The nearest layer; the one asked for when the plane is right."""
    error: float
    """The worst row's relative L2 distance to the right state."""
    wrong: tuple[int, ...]
    """The rows that are not right."""
    distances: tuple[float, ...]
    """Per layer: the median over rows of the relative L2 distance to its output."""


@dataclass(frozen=True)
class Comparison:
    """Delivered planes against the ids asked for."""

    ok: bool
    worst: float
    """The largest relative L2 distance of any row; infinite when there is nothing to compare."""
    margin: float
    """tolerance / worst."""
    planes: tuple[PlaneMatch, ...] = ()
    """One entry a plane; empty when number or shape of the planes is wrong."""
    problem: str = ""
    """What is wrong with number or shape."""


def compare(observed: Observed, context: Context) -> Comparison:
    """Judge every row of every plane; cheap enough for every example of a fuzz.

    Raises:
        HarnessError: `observed.dtype` is not a dtype of planes.
    """
    coarse = is_coarse(observed.dtype)
    planes = split_planes(observed.planes, context.states.width)
    if problem := shape_problem(planes, observed.position, context):
        return Comparison(ok=False, worst=float("inf"), margin=0.0, problem=problem)
    stacked = np.stack(planes)
    window = slice(observed.position, observed.position + stacked.shape[1])
    table = _distances(stacked, context.states.layers[:, window])
    medians = np.median(table, axis=2)
    matches: list[PlaneMatch] = []
    for plane, distances, median, asked in zip(stacked, table, medians, context.asked, strict=True):
        error, other = _error_and_rival(plane, distances, asked, context, window)
        if coarse:
            floor = max(context.tolerance, 4.0 * 2.0 ** -_MANTISSA[observed.dtype])
            right = (error <= CLEAR * other) | ((error <= floor) & (other > CLEAR * error))
            right &= np.isfinite(error) & (not rounding(plane, observed.dtype))
        else:
            right = (error <= context.tolerance) & (error <= other)
        wrong = np.flatnonzero(~right)
        matches.append(
            PlaneMatch(
                asked=asked,
                matched=int(np.argmin(median)) if wrong.size else asked,
                error=float(error.max()),
                wrong=tuple(wrong.tolist()),
                distances=tuple(median.tolist()),
            )
        )
    worst = max((match.error for match in matches), default=0.0)
    return Comparison(
        ok=not any(match.wrong for match in matches),
        worst=worst,
        margin=context.tolerance / max(worst, 1e-12),
        planes=tuple(matches),
    )


def is_coarse(dtype: str) -> bool:
    """Whether planes of this dtype are judged by the nearest candidate, not by the tolerance.

    Raises:
        HarnessError: not a dtype of planes.
    """
    if dtype not in _MANTISSA:
        raise HarnessError(f"dtype {dtype!r} of planes: expected one of {', '.join(_MANTISSA)}")
    return _MANTISSA[dtype] < _MANTISSA["float32"]


def split_planes(planes: tuple[FloatArray, ...], width: int) -> tuple[FloatArray, ...]:
    """The planes one by one: a single array of n planes side by side is cut into n."""
    if len(planes) == 1 and planes[0].ndim == 2:
        (joined,) = planes
        if joined.shape[1] > width and joined.shape[1] % width == 0:
            return tuple(np.split(joined, joined.shape[1] // width, axis=1))
    return planes


def right_states(context: Context, asked: int) -> tuple[FloatArray, ...]:
    """The states `[T, H]` that are right for a layer id: one, two for a last layer, none if illegal."""
    states = context.states
    if not 0 <= asked < states.depth:
        return ()
    if asked < states.depth - 1 or context.final == "raw":
        return (states.layers[asked],)
    return (states.normed,) if context.final == "normed" else (states.layers[asked], states.normed)


def relative(rows: FloatArray, state: FloatArray) -> FloatArray:
    """Per row the L2 distance relative to `state`'s own norm; both `[T, H]`; infinite if not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.linalg.norm(rows.astype(np.float64) - state, axis=-1)
        norm = np.linalg.norm(state.astype(np.float64), axis=-1)
        ratio: FloatArray = difference / np.maximum(norm, _TINY)
    return np.where(np.isfinite(ratio), ratio, np.inf)


def rounding(rows: FloatArray, dtype: str) -> str:
    """How the numbers show that they were rounded below `dtype`; empty when they don't.

    A narrower float leaves mantissa bits that are always zero; a scaled one (per tensor, row or
    column) leaves few distinct mantissas; a scaled integer leaves few distinct magnitudes.
    """
    words = np.ascontiguousarray(rows, dtype=np.float32).view(np.uint32)
    mantissas = words & np.uint32(0x7FFFFF)
    union = int(np.bitwise_or.reduce(mantissas, axis=None))
    used = 24 - (union & -union).bit_length() if union else 0
    if 0 < used <= min(_MANTISSA[dtype], 23) - 3:
        return f"{used} mantissa bits"
    for lines in (mantissas, mantissas.T):
        filled = int(np.count_nonzero(lines, axis=1).min())
        if filled >= 24 and (most := _most_distinct(lines)) <= 9:
            return f"at most {most} distinct mantissas in {lines.shape[1]} numbers"
    magnitudes = np.unique(words & np.uint32(0x7FFFFFFF)).size
    if 1 < magnitudes <= 128 and words.size >= 1024:
        return f"{magnitudes} distinct magnitudes in {words.size} numbers"
    return ""


def _most_distinct(lines: NDArray[np.uint32]) -> int:
    """The largest number of distinct values in any line of `[lines, values]`."""
    ordered = np.sort(lines, axis=1)
    return 1 + int((ordered[:, 1:] != ordered[:, :-1]).sum(axis=1).max())


def shape_problem(planes: tuple[FloatArray, ...], position: int, context: Context) -> str:
    """What is wrong with number or shape of the planes; empty when nothing is."""
    width, length = context.states.width, context.states.layers.shape[1]
    if len(planes) != len(context.asked):
        return f"{len(planes)} planes for {len(context.asked)} layer ids"
    for index, plane in enumerate(planes):
        if plane.ndim != 2 or plane.shape[1] != width:
            return f"plane {index} has shape {list(plane.shape)}, expected [rows, {width}]"
        if plane.shape[0] != planes[0].shape[0] or not plane.shape[0]:
            return f"plane {index} has {plane.shape[0]} rows, plane 0 has {planes[0].shape[0]}"
        if position < 0 or position + plane.shape[0] > length:
            end = position + plane.shape[0]
            return f"plane {index} covers positions {position} to {end - 1} of {length} tokens"
    return ""


def _distances(planes: FloatArray, layers: FloatArray) -> FloatArray:
    """Relative L2 distance `[P, N, T]` of every row of every plane to every layer's row.

    One matrix product per row, in float64: |x - y|^2 = |x|^2 - 2xy + |y|^2 keeps 8 digits there.
    """
    count, (depth, height, width) = len(planes), layers.shape
    table = np.empty((count, depth, height))
    for rows in _row_blocks(height, depth * width):
        x = planes[:, rows].astype(np.float64).transpose(1, 0, 2)
        y = layers[:, rows].astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            y_norm = np.einsum("nth,nth->tn", y, y)[:, None, :]
            x_norm = np.einsum("tph,tph->tp", x, x)[:, :, None]
            square = x_norm - 2.0 * (x @ y.transpose(1, 2, 0)) + y_norm
            ratio = np.sqrt(np.maximum(square, 0.0) / np.maximum(y_norm, _TINY))
        table[:, :, rows] = ratio.transpose(1, 2, 0)
    table[~np.isfinite(table)] = np.inf
    return table


def _row_blocks(height: int, size: int) -> Iterator[slice]:
    step = max(1, _BLOCK // size)
    for start in range(0, height, step):
        yield slice(start, min(start + step, height))


def _error_and_rival(
    plane: FloatArray, distances: FloatArray, asked: int, context: Context, window: slice
) -> tuple[FloatArray, FloatArray]:
    """Per row: the distance to the right state, and to the nearest layer that would be wrong."""
    rights = right_states(context, asked)
    errors = [relative(plane, state[window]) for state in rights]
    error = min(errors, key=np.max) if errors else np.full(len(plane), np.inf)
    wrong = np.arange(len(distances)) != asked
    if asked == context.states.depth - 1 and context.final == "normed":
        wrong[asked] = True
    rival = distances[wrong].min(axis=0) if wrong.any() else np.full(len(plane), np.inf)
    return error, rival
