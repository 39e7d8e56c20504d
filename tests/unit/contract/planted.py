"""What a planted fault is, and the wrong planes that capture clauses are tried on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fake_engine import Floats, Moment, Planes, states

from matrix.contract import CLAUSES, Bench, Skip, Verdict, death
from matrix.errors import EngineError
from matrix.faults import Fault, Phase

Hand = Callable[[Planes, Moment], Planes]


@dataclass(frozen=True)
class Planted:
    """One fault: which clause must find it, planted where, and what it must be called."""

    clause: str
    name: str
    label: Fault | tuple[Fault, ...]
    """The labels that are given; no other may be."""
    seams: Callable[[], Mapping[str, Any]]
    """Keyword arguments of `FakeEngine`, made anew each time: some faults have a memory."""
    phase: Phase = Phase.ALL
    bench: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of `bench`."""

    @property
    def labels(self) -> set[Fault]:
        return {self.label} if isinstance(self.label, Fault) else set(self.label)

    def __str__(self) -> str:
        return f"{self.clause}-{self.name.replace(' ', '-')}"


def ruling(clause: str, bench: Bench) -> Verdict | Skip:
    """What a clause says of an engine, and of one that raises: as the runner has it."""
    try:
        return CLAUSES[clause].check(bench)
    except EngineError as error:
        return Verdict(death(bench, error, CLAUSES[clause].gives))


def dies(type_name: str, text: str) -> Callable[..., Any]:
    """A seam that raises."""

    def seam(*_: Any) -> Any:
        raise EngineError(type_name, text)

    return seam


def when(condition: Callable[[Moment], bool], seam: Callable[..., Any]) -> Callable[..., Any]:
    """The fault only where the condition holds."""
    return lambda value, moment: seam(value, moment) if condition(moment) else value


def in_prefill(moment: Moment) -> bool:
    return moment.kind == "prefill"


def in_verify(moment: Moment) -> bool:
    return moment.kind == "verify"


def on_hit(moment: Moment) -> bool:
    return moment.cached > 0


# --- planes as they are handed over ------------------------------------------------------------


def one_low(planes: Planes, m: Moment) -> Planes:
    return [m.layer(n - 1) for n in m.ids]


def one_high(planes: Planes, m: Moment) -> Planes:
    return [m.layer(n + 1) for n in m.ids]


def reversed_order(planes: Planes, m: Moment) -> Planes:
    return planes[::-1]


def branch_alone(planes: Planes, m: Moment) -> Planes:
    assert m.states.mlp is not None, "the fake has the detail arrays"
    return [m.states.mlp[n, m.at] for n in m.ids]


def without_branch(planes: Planes, m: Moment) -> Planes:
    assert m.states.mlp is not None, "the fake has the detail arrays"
    return [m.states.layers[n, m.at] - m.states.mlp[n, m.at] for n in m.ids]


def normed(planes: Planes, m: Moment) -> Planes:
    assert m.states.final_normed is not None, "the fake has the detail arrays"
    return [m.states.final_normed[n, m.at] for n in m.ids]


def rounded(planes: Planes, m: Moment) -> Planes:
    return [(plane.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32) for plane in planes]


def first_repeated(planes: Planes, m: Moment) -> Planes:
    return [planes[0]] * len(planes)


def zeros(planes: Planes, m: Moment) -> Planes:
    return [np.zeros_like(plane) for plane in planes]


def half_width(planes: Planes, m: Moment) -> Planes:
    return [np.where(np.arange(plane.shape[1]) % 2, plane, 0.0) for plane in planes]


def columns_turned(planes: Planes, m: Moment) -> Planes:
    return [plane[:, ::-1] for plane in planes]


def rows_moved(planes: Planes, m: Moment) -> Planes:
    """Each row is that of the position before; the very first has none and stays."""
    positions = np.maximum(np.arange(m.position, len(m.tokens)) - 1, 0)
    return [m.states.layers[n, positions] for n in m.ids]


def one_nan(planes: Planes, m: Moment) -> Planes:
    planes[0][-1, 3] = np.nan
    return planes


def one_missing(planes: Planes, m: Moment) -> Planes:
    return planes[1:] or planes


def narrow(planes: Planes, m: Moment) -> Planes:
    return [plane[:, :-1] for plane in planes]


def row_short(planes: Planes, m: Moment) -> Planes:
    return [plane[:-1] for plane in planes]


def none(planes: Planes, m: Moment) -> Planes:
    return []


def stale() -> Hand:
    """A buffer that is filled anew only every other time: till then it holds what it held."""
    before: dict[str | None, Planes] = {}

    def handed(planes: Planes, m: Moment) -> Planes:
        buffer = m.request.salt
        if buffer not in before:
            before[buffer] = [plane.copy() for plane in planes]
            return planes
        for plane, old in zip(planes, before.pop(buffer), strict=False):
            count = min(len(plane), len(old))
            plane[:count] = old[:count]
        return planes

    return handed


def anothers(planes: Planes, m: Moment) -> Planes:
    """The rows of the batch's longest prompt stand in for a shorter one's."""
    longest = max(m.batch, key=lambda request: len(request.prompt))
    if m.kind == "verify" or m.request is longest or len(m.batch) == 1:
        return planes
    other = states(tuple(longest.prompt)).layers[m.ids]
    return list(other[:, m.at])


# --- what the draft receives -------------------------------------------------------------------


def rejected_too(whole: Floats | None, m: Moment) -> Floats | None:
    """The draft's context takes the rows of rejected drafts in."""
    if whole is None or m.kind == "prefill":
        return whole
    return np.concatenate([m.layer(n) for n in m.ids], axis=1)


def columns_lost(whole: Floats | None, m: Moment) -> Floats | None:
    return None if whole is None else whole[:, :-1]


PLANES: Mapping[str, tuple[Fault, Callable[[], Hand]]] = {
    "one low": (Fault.TAP_SHIFT_BEFORE, lambda: one_low),
    "one high": (Fault.TAP_SHIFT_AFTER, lambda: one_high),
    "reversed": (Fault.TAP_ORDER, lambda: reversed_order),
    "branch alone": (Fault.RESIDUAL_MISSING, lambda: branch_alone),
    "without branch": (Fault.RESIDUAL_ONLY, lambda: without_branch),
    "normed": (Fault.NORM_APPLIED, lambda: normed),
    "rounded": (Fault.PRECISION_LOSS, lambda: rounded),
    "first repeated": (Fault.PLANE_REPEATED, lambda: first_repeated),
    "zeros": (Fault.PLANE_ZERO, lambda: zeros),
    "half width": (Fault.PLANE_PARTIAL, lambda: half_width),
    "columns turned": (Fault.PLANE_PERMUTED, lambda: columns_turned),
    "stale": (Fault.PLANE_STALE, stale),
    "rows moved": (Fault.ROW_SHIFT, lambda: rows_moved),
    "one nan": (Fault.NONFINITE, lambda: one_nan),
    "one missing": (Fault.PLANE_MISSING, lambda: one_missing),
    "narrow": (Fault.PLANE_SHAPE, lambda: narrow),
    "row short": (Fault.PLANE_SHAPE, lambda: row_short),
    "none": (Fault.HOOK_HOLLOW, lambda: none),
}
"""Name -> its label, and the seam `handed` that gives it."""

DEATHS: Mapping[str, tuple[Fault, Callable[..., Any]]] = {
    "dies unpacking": (
        Fault.UNPACK_MISMATCH,
        dies("ValueError", "too many values to unpack (expected 2)"),
    ),
    "dies multiplying": (
        Fault.PLANE_SHAPE,
        dies("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (5x10240 and 12800x2560)"),
    ),
    "dies of width": (
        Fault.PLANE_SHAPE,
        dies("ValueError", "192 features expected, 128 received"),
    ),
    "dies of something else": (Fault.UNKNOWN, dies("RuntimeError", "device-side assert")),
}
"""An engine's last words, as the public reports have them, and what they mean."""


def deaths(clause: str) -> Iterator[Planted]:
    """An engine that dies at its first draft, of each cause."""
    for name, (label, drafting) in DEATHS.items():
        yield Planted(clause, name, label, lambda seam=drafting: {"drafting": seam})  # type: ignore[misc]
