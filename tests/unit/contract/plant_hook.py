"""Faults for the clauses that try a hook: HOOK-SHIFT, HOOK-NONE and HOOK-PP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fake_engine import refusing, tried
from planted import Planted

from matrix.engines import Probed
from matrix.faults import Fault

__all__ = ["PLANTED"]

F = Fault
NO_SETTER = "'FakeModel' object has no attribute 'set_dflash_layers_to_capture'"


def holds(move: int, enters: bool | None = True) -> Callable[[], Mapping[str, Any]]:
    """A hook that adds `move`; `None` and other ranks as the healthy one has them."""

    def hook(ids: Any, depth: int, last_rank: bool) -> Probed:
        healthy = tried(ids, depth, last_rank)
        if healthy.refused is not None:
            return healthy
        return Probed([i + move for i in ids], enters, "FakeModel")

    return lambda: {"tried": hook}


def says(probed: Probed) -> Callable[[], Mapping[str, Any]]:
    """A hook to which the same happens whatever it is given."""
    return lambda: {"tried": lambda *_: probed}


SILENT = Probed(None, True, "FakeModel")

PLANTED = (
    Planted("HOOK-SHIFT", "no one added", F.TAP_SHIFT_BEFORE, holds(0)),
    Planted("HOOK-SHIFT", "two added", F.TAP_SHIFT_AFTER, holds(2)),
    Planted("HOOK-SHIFT", "one added, captured behind", F.TAP_SHIFT_AFTER, holds(1, False)),
    Planted("HOOK-SHIFT", "far away", F.UNKNOWN, holds(4)),
    Planted("HOOK-SHIFT", "one number too few", F.UNKNOWN, says(Probed([2, 4], True, "FakeModel"))),
    Planted("HOOK-SHIFT", "nothing set", F.HOOK_HOLLOW, says(SILENT)),
    Planted("HOOK-SHIFT", "refused", F.START_REFUSED, says(refusing("ValueError", "no layers"))),
    Planted(
        "HOOK-SHIFT",
        "not handed on",
        F.HOOK_NOT_DELEGATED,
        says(refusing("AttributeError", NO_SETTER)),
    ),
    Planted("HOOK-NONE", "guessed", F.TAP_GUESS, says(Probed([2, 4, 6], True, "FakeModel"))),
    Planted("HOOK-NONE", "taken", F.TAP_LATE, says(SILENT)),
    Planted(
        "HOOK-NONE",
        "refused unclearly",
        F.TAP_UNCLEAR,
        says(refusing("TypeError", "'NoneType' object is not iterable")),
    ),
    Planted("HOOK-PP", "silent", F.PP_SILENT, says(SILENT)),
)
