"""Faults for TAP-*: what engines make of layer ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from fake_engine import DEPTH, Floats, Moment, Planes, strict
from planted import PLANES, Planted, deaths, dies, in_prefill, when

from matrix.errors import EngineError
from matrix.faults import Fault

F = Fault
Resolve = Callable[[Any], list[int]]
INTERFACE = EngineError(
    "RuntimeError",
    "Model does not support EAGLE3 interface but aux_hidden_state_outputs was requested",
)
COUNT = EngineError("ValueError", "fc takes 3 planes")


def lax(ids: Any) -> list[int]:
    """Takes whatever it is given."""
    return [] if ids is None else list(ids)


def guess(ids: Any) -> list[int]:
    """Guesses where none are given."""
    return strict(ids or [1, DEPTH // 2])


def in_order(ids: Any) -> list[int]:
    return sorted(strict(ids))


def as_set(ids: Any) -> list[int]:
    return list(dict.fromkeys(strict(ids)))


def truncating(ids: Any) -> list[int]:
    """Makes 1 of 1.5, and refuses what no number can be made of."""
    try:
        return strict([int(value) for value in ids])
    except (TypeError, ValueError) as error:
        raise EngineError(type(error).__name__, str(error)) from None


def one_low(ids: Any) -> list[int]:
    return [value - 1 for value in strict(ids)]


def past_odd_types(ids: Any) -> list[int]:
    """An odd type stands for the layer behind its number."""
    return [value if type(value) is int else _number(value) + 1 for value in ids]


def _kept(old: list[int], new: list[int]) -> list[int]:
    """What was set before still acts."""
    return sorted({*old, *new})


def _number(value: Any) -> int:
    if isinstance(value, list) or value is None or value != int(value):
        raise EngineError("TypeError", f"layer id {value}")
    return int(value)


def but_for(refused: Callable[[list[int]], bool], error: EngineError) -> Resolve:
    """Healthy, but for legal ids that it refuses."""

    def resolve(ids: Any) -> list[int]:
        if refused(ids):
            raise error
        return strict(ids)

    return resolve


def unclear(ids: Any) -> list[int]:
    """Refuses as healthy engines do, without a word on what."""
    try:
        return strict(ids)
    except EngineError:
        raise EngineError("AssertionError", "") from None


def illegal(m: Moment) -> bool:
    return not m.ids or len(set(m.ids)) < len(m.ids) or not all(0 <= n < DEPTH for n in m.ids)


def late(text: str) -> Callable[[], dict[str, Any]]:
    """Illegal ids are taken, and the first draft dies of them."""

    def drafting(m: Moment) -> None:
        if illegal(m):
            raise EngineError("ValueError", text)

    return lambda: {"resolve": lax, "drafting": drafting}


def odd_late(text: str) -> Callable[[], dict[str, Any]]:
    """Ids of another type are taken, and the first forward dies of them."""

    def is_odd(m: Moment) -> bool:
        return any(type(n) is not int for n in m.ids)

    return lambda: {"resolve": lax, "handed": when(is_odd, dies("TypeError", text))}


def set_order(whole: Floats | None, m: Moment) -> Floats | None:
    """The draft gets its planes in the order of the layers."""
    if whole is None:
        return None
    parts = np.split(whole, len(m.ids), axis=1)
    return np.concatenate([parts[i] for i in np.argsort(m.ids, kind="stable")], axis=1)


def past_end(planes: Planes, m: Moment) -> Planes:
    """The last layer's plane is the one before it."""
    return [m.layer(min(n, DEPTH - 2)) for n in m.ids]


def last_lost(planes: Planes, m: Moment) -> Planes:
    """The loop over layers ends before the last boundary."""
    return [plane for n, plane in zip(m.ids, planes, strict=True) if n != DEPTH - 1]


def _resolver(resolve: Resolve) -> Callable[[], dict[str, Any]]:
    return lambda: {"resolve": resolve}


def _planes(clause: str) -> Any:
    for name, (label, make) in PLANES.items():
        # Of one plane alone, some of these can't be wrong: the ids are fuzzed in size too.
        yield Planted(clause, name, label, lambda m=make: {"handed": when(in_prefill, m())})  # type: ignore[misc]


PLANTED = (
    *_planes("TAP-VALID"),
    *deaths("TAP-VALID"),
    Planted("TAP-VALID", "ids one low", F.TAP_SHIFT_BEFORE, _resolver(one_low)),
    Planted(
        "TAP-VALID",
        "count refused",
        F.START_REFUSED,
        _resolver(but_for(lambda ids: len(ids) != 3, COUNT)),
    ),
    Planted(
        "TAP-VALID", "no hook", F.HOOK_MISSING, _resolver(but_for(lambda ids: 0 in ids, INTERFACE))
    ),
    Planted("TAP-LAST", "normed", F.NORM_APPLIED, lambda: {"final": "normed"}),
    Planted(
        "TAP-LAST", "raw", F.NORM_MISSING, lambda: {"final": "raw"}, bench={"final_tap": "normed"}
    ),
    Planted("TAP-LAST", "the one before", F.TAP_SHIFT_BEFORE, lambda: {"handed": past_end}),
    Planted("TAP-LAST", "lost", F.PLANE_MISSING, lambda: {"handed": last_lost}),
    Planted(
        "TAP-LAST",
        "refused",
        F.START_REFUSED,
        _resolver(but_for(lambda ids: DEPTH - 1 in ids, COUNT)),
    ),
    *deaths("TAP-LAST"),
    Planted("TAP-ORDER", "sorted", F.TAP_ORDER, _resolver(in_order)),
    Planted("TAP-ORDER", "sorted at the draft", F.TAP_ORDER, lambda: {"received": set_order}),
    *deaths("TAP-ORDER"),
    Planted("TAP-DUP", "set", F.TAP_DUP_SILENT, _resolver(as_set)),
    Planted("TAP-DUP", "late", F.TAP_LATE, late("target_layer_ids hold duplicates")),
    Planted("TAP-DUP", "late, unclear", (F.TAP_LATE, F.TAP_UNCLEAR), late("192 features expected")),
    Planted("TAP-RANGE", "used", F.TAP_RANGE_SILENT, _resolver(lax)),
    Planted("TAP-RANGE", "late", F.TAP_LATE, late("layer ids out of range")),
    Planted("TAP-RANGE", "unclear", F.TAP_UNCLEAR, _resolver(unclear)),
    Planted(
        "TAP-RANGE",
        "late, unclear",
        (F.TAP_LATE, F.TAP_UNCLEAR),
        late("too many values to unpack (expected 2)"),
    ),
    Planted("TAP-EMPTY", "guessed", F.TAP_GUESS, _resolver(guess)),
    Planted("TAP-EMPTY", "late", F.TAP_LATE, late("no layer ids")),
    Planted("TAP-EMPTY", "unclear", F.TAP_UNCLEAR, _resolver(unclear)),
    Planted("TAP-TYPE", "truncated", F.TAP_RANGE_SILENT, _resolver(truncating)),
    Planted("TAP-TYPE", "read as another", F.TAP_SHIFT_AFTER, _resolver(past_odd_types)),
    Planted("TAP-TYPE", "late", F.TAP_LATE, odd_late("layer ids must be integers")),
    Planted(
        "TAP-TYPE", "late, unclear", (F.TAP_LATE, F.TAP_UNCLEAR), odd_late("can't be an index")
    ),
    *(
        Planted(clause, "leak", F.TAP_LEAK, lambda: {"set_ids": _kept})
        for clause in ("TAP-VALID", "TAP-LAST", "TAP-RECONF")
    ),
    Planted("TAP-RECONF", "one low", F.TAP_SHIFT_BEFORE, _resolver(one_low)),
    Planted("TAP-RECONF", "first call wins", F.TAP_LEAK, lambda: {"set_ids": lambda old, new: old}),
)
