"""The closed list of fault labels, and the one table of what can give them.

A label is the *named cause* of a red cell. The table maps every clause and every scan rule to
the labels it can give, each with the severity it has there. `unknown` is always legal: red, with
evidence, but no candidate fits. A wrong name is never legal.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

__all__ = ["GIVES", "Fault", "Phase", "Severity", "severity_of", "worst_first"]


class Severity(StrEnum):
    """How bad a fault is: what it does to the person who serves the pair."""

    DIES = "dies"
    """The start or a request dies."""
    WRONG = "wrong"
    """States, drafts or output are wrong."""
    GUARD = "guard"
    """Nothing is wrong yet, a guard is missing; makes a cell `warn`."""


class Phase(StrEnum):
    """Where a fault shows."""

    ALL = "all"
    DECODE = "decode"
    BATCH = "batch"
    LONG = "long"


class Fault(StrEnum):
    """Every fault label there is; in the journal they stand as these strings."""

    HOOK_ABSENT = "hook-absent"
    HOOK_MISSING = "hook-missing"
    HOOK_NOT_DELEGATED = "hook-not-delegated"
    HOOK_HOLLOW = "hook-hollow"
    HOOK_SHADOWED = "hook-shadowed"
    PP_SILENT = "pp-silent"
    TWIN_GAP = "twin-gap"
    UNPACK_MISMATCH = "unpack-mismatch"
    TAP_SHIFT_BEFORE = "tap-shift-1"
    TAP_SHIFT_AFTER = "tap-shift+1"
    TAP_ORDER = "tap-order"
    TAP_DUP_SILENT = "tap-dup-silent"
    TAP_RANGE_SILENT = "tap-range-silent"
    TAP_LATE = "tap-late"
    TAP_UNCLEAR = "tap-unclear"
    TAP_LEAK = "tap-leak"
    TAP_GUESS = "tap-guess"
    RESIDUAL_MISSING = "residual-missing"
    RESIDUAL_ONLY = "residual-only"
    NORM_APPLIED = "norm-applied"
    NORM_MISSING = "norm-missing"
    PRECISION_LOSS = "precision-loss"
    PLANE_REPEATED = "plane-repeated"
    PLANE_ZERO = "plane-zero"
    PLANE_PARTIAL = "plane-partial"
    PLANE_PERMUTED = "plane-permuted"
    PLANE_STALE = "plane-stale"
    PLANE_FOREIGN = "plane-foreign"
    PLANE_MISSING = "plane-missing"
    PLANE_SHAPE = "plane-shape"
    ROW_SHIFT = "row-shift"
    NONFINITE = "nonfinite"
    CAPTURE_INTERFERES = "capture-interferes"
    OUTPUT_DIFFERS = "output-differs"
    COUNTERS_WRONG = "counters-wrong"
    SPEC_INACTIVE = "spec-inactive"
    ACCEPTANCE_COLLAPSE = "acceptance-collapse"
    DRAFT_DIFFERS = "draft-differs"
    START_REFUSED = "start-refused"
    TARGET_CHANGED = "target-changed"
    CONFIG_INVALID = "config-invalid"
    CONFIG_MISMATCH = "config-mismatch"
    LOG_FLOOD = "log-flood"
    RUNNER_SPLIT = "runner-split"
    RANK_SPLIT = "rank-split"
    UNKNOWN = "unknown"


def _all(severity: Severity, *faults: Fault) -> dict[Fault, Severity]:
    return dict.fromkeys(faults, severity)


_F, _DIES, _WRONG, _GUARD = Fault, Severity.DIES, Severity.WRONG, Severity.GUARD

# Any clause whose engine call raises, or whose worker floods its log, may give these.
_ANY = {_F.UNKNOWN: _WRONG, _F.LOG_FLOOD: _DIES}
_START = _all(_DIES, _F.START_REFUSED, _F.HOOK_MISSING)
# How a step dies when the planes don't fit what the draft or the runner expects of them.
_STEP = _all(_DIES, _F.UNPACK_MISMATCH, _F.PLANE_SHAPE, _F.PLANE_MISSING)
# Where nothing is drafted, some engines capture nothing.
_SHAPE = _all(_WRONG, _F.PLANE_SHAPE, _F.PLANE_MISSING, _F.HOOK_HOLLOW, _F.SPEC_INACTIVE)
# Wrong planes that show in their values, and in the accepted drafts of a canary too.
_PLANES = _all(
    _WRONG,
    _F.TAP_SHIFT_BEFORE,
    _F.TAP_SHIFT_AFTER,
    _F.TAP_ORDER,
    _F.RESIDUAL_MISSING,
    _F.RESIDUAL_ONLY,
    _F.NORM_APPLIED,
    _F.PLANE_REPEATED,
    _F.PLANE_ZERO,
    _F.PLANE_STALE,
    _F.PLANE_FOREIGN,
    _F.ROW_SHIFT,
)
_VALUE = (
    _SHAPE
    | _PLANES
    | _all(
        _WRONG,
        _F.NORM_MISSING,
        _F.PRECISION_LOSS,
        _F.PLANE_PARTIAL,
        _F.PLANE_PERMUTED,
        _F.NONFINITE,
    )
)
# Nobody promises a second call of a hook: ids that still act are a missing guard.
_LEAK = _all(_GUARD, _F.TAP_LEAK)
_TAP = _VALUE | _LEAK | _all(_WRONG, _F.TAP_DUP_SILENT, _F.TAP_GUESS, _F.TAP_RANGE_SILENT)
_REFUSAL = _all(_GUARD, _F.TAP_LATE, _F.TAP_UNCLEAR)
# What two configs say of each other: a file that contradicts itself, and one that raises a doubt.
_BROKEN = _all(_DIES, _F.CONFIG_INVALID)
_DOUBT = _all(_GUARD, _F.CONFIG_MISMATCH)
# What accepted drafts alone can tell.
_CANARY = _PLANES | _all(_WRONG, _F.DRAFT_DIFFERS, _F.ACCEPTANCE_COLLAPSE, _F.SPEC_INACTIVE)
_OUTPUT = _STEP | _all(_WRONG, _F.OUTPUT_DIFFERS)

GIVES: Final[Mapping[str, Mapping[Fault, Severity]]] = MappingProxyType(
    {
        "START-LOAD": _ANY | _START,
        "START-DECODE": _ANY | _STEP | _all(_DIES, _F.SPEC_INACTIVE),
        "START-SPEC": _ANY | _STEP | _all(_WRONG, _F.SPEC_INACTIVE),
        "START-PLAIN": _ANY | _all(_DIES, _F.START_REFUSED) | _all(_WRONG, _F.OUTPUT_DIFFERS),
        "START-PURE": _ANY | _all(_WRONG, _F.TARGET_CHANGED),
        "START-PP": _ANY | _START | _all(_WRONG, _F.OUTPUT_DIFFERS, _F.SPEC_INACTIVE),
        "HOOK-PRESENT": _ANY | _all(_DIES, _F.HOOK_MISSING, _F.HOOK_ABSENT),
        "HOOK-SHIFT": _ANY
        | _all(_DIES, _F.START_REFUSED, _F.HOOK_NOT_DELEGATED)
        | _all(_WRONG, _F.TAP_SHIFT_BEFORE, _F.TAP_SHIFT_AFTER, _F.HOOK_HOLLOW),
        "HOOK-NONE": _ANY | _REFUSAL | _all(_WRONG, _F.TAP_GUESS),
        "HOOK-PP": _ANY | _all(_GUARD, _F.PP_SILENT),
        "HOOK-REACH": _ANY | _all(_WRONG, _F.HOOK_HOLLOW),
        "HOOK-RUNNER-SPLIT": _ANY
        | _all(_WRONG, _F.RUNNER_SPLIT, _F.TAP_SHIFT_BEFORE, _F.TAP_SHIFT_AFTER),
        "HOOK-RANKS": _ANY | _all(_WRONG, _F.RANK_SPLIT),
        "AUX-COUNT": _ANY | _STEP | _SHAPE,
        "AUX-SHAPE": _ANY | _STEP | _SHAPE,
        "AUX-VALUE": _ANY | _STEP | _VALUE,
        "AUX-DECODE": _ANY | _STEP | _VALUE,
        "AUX-BATCH": _ANY | _STEP | _VALUE,
        "AUX-INERT": _ANY | _STEP | _all(_WRONG, _F.CAPTURE_INTERFERES),
        "AUX-REUSE": _ANY | _STEP | _VALUE | _all(_WRONG, _F.ACCEPTANCE_COLLAPSE),
        "AUX-CHUNK": _ANY | _STEP | _VALUE,
        "AUX-LONG": _ANY | _STEP | _VALUE,
        "AUX-PUBLIC": _ANY | _STEP | _VALUE,
        "AUX-TP": _ANY | _STEP | _VALUE | _START | _all(_WRONG, _F.RANK_SPLIT, _F.OUTPUT_DIFFERS),
        "TAP-VALID": _ANY | _STEP | _TAP | _START,
        "TAP-LAST": _ANY | _STEP | _TAP | _START,
        "TAP-ORDER": _ANY | _STEP | _TAP,
        "TAP-DUP": _ANY | _STEP | _TAP | _REFUSAL,
        "TAP-RANGE": _ANY | _TAP | _REFUSAL,
        "TAP-EMPTY": _ANY | _TAP | _REFUSAL,
        "TAP-TYPE": _ANY | _TAP | _REFUSAL,
        "TAP-RECONF": _ANY | _TAP,
        "OUTPUT-LOSSLESS": _ANY | _OUTPUT | _all(_WRONG, _F.SPEC_INACTIVE),
        "OUTPUT-FORCED": _ANY | _OUTPUT | _all(_WRONG, _F.COUNTERS_WRONG, _F.SPEC_INACTIVE),
        "OUTPUT-STOP": _ANY | _OUTPUT,
        "OUTPUT-K": _ANY | _OUTPUT | _all(_WRONG, _F.COUNTERS_WRONG, _F.SPEC_INACTIVE),
        "OUTPUT-DIST": _ANY | _OUTPUT | _all(_WRONG, _F.SPEC_INACTIVE),
        "OUTPUT-COUNTERS": _ANY | _STEP | _all(_WRONG, _F.COUNTERS_WRONG, _F.SPEC_INACTIVE),
        "CANARY-PROFILE": _ANY | _STEP | _CANARY,
        "CANARY-LOAD": _ANY | _STEP | _CANARY,
        "CANARY-CACHE": _ANY | _STEP | _CANARY,
        "CANARY-DRIFT": _ANY | _STEP | _CANARY,
        "CFG-IDS": _all(_DIES, _F.CONFIG_INVALID) | _all(_GUARD, _F.TAP_SHIFT_BEFORE),
        "CFG-GUESS": _all(_WRONG, _F.TAP_GUESS),
        "CFG-FC": _all(_DIES, _F.CONFIG_MISMATCH),
        "CFG-DEPTH": _all(_DIES, _F.CONFIG_INVALID) | _all(_WRONG, _F.CONFIG_MISMATCH),
        "CFG-WIDTH": _all(_DIES, _F.CONFIG_INVALID, _F.CONFIG_MISMATCH),
        "CFG-VOCAB": _all(_DIES, _F.CONFIG_INVALID) | _all(_WRONG, _F.CONFIG_MISMATCH),
        "CFG-MASK": _all(_DIES, _F.CONFIG_INVALID),
        "CFG-BLOCK": _all(_DIES, _F.CONFIG_INVALID, _F.START_REFUSED)
        | _all(_GUARD, _F.CONFIG_MISMATCH),
        "CFG-ARCH": _all(_DIES, _F.CONFIG_INVALID, _F.START_REFUSED, _F.HOOK_MISSING),
        "CFG-RUNNER-SPLIT": _all(_WRONG, _F.RUNNER_SPLIT),
        "CFG-LAST": _all(_DIES, _F.PLANE_MISSING) | _DOUBT,
        "CFG-MASK-ROLE": _BROKEN | _DOUBT,
        "CFG-CONTEXT": _BROKEN | _DOUBT,
        "CFG-ROPE": _BROKEN | _DOUBT,
        "CFG-MROPE": _DOUBT,
        "CFG-WINDOW": _BROKEN | _DOUBT,
        "CFG-DTYPE": _DOUBT,
        "CFG-QUANT": _DOUBT,
        "CFG-KEYS": _all(_GUARD, _F.CONFIG_INVALID),
        "CFG-EDITION": _DOUBT,
        "SRC-HOOK-MISSING": _all(_DIES, _F.HOOK_MISSING, _F.HOOK_NOT_DELEGATED),
        "SRC-HOOK-ABSENT": _all(_GUARD, _F.HOOK_ABSENT),
        "SRC-HOOK-HOLLOW": _all(_WRONG, _F.HOOK_HOLLOW),
        "SRC-HOOK-SHADOWED": _all(_WRONG, _F.HOOK_SHADOWED),
        "SRC-TAP-SHIFT": _all(_WRONG, _F.TAP_SHIFT_BEFORE, _F.TAP_SHIFT_AFTER),
        "SRC-TAP-UNCHECKED": _all(_GUARD, _F.TAP_LATE),
        "SRC-LAST-LAYER": _all(_DIES, _F.PLANE_MISSING),
        "SRC-NONE-UNCHECKED": _all(_GUARD, _F.TAP_LATE),
        "SRC-PP-SILENT": _all(_GUARD, _F.PP_SILENT),
        "SRC-ALGO-GAP": _all(_GUARD, _F.HOOK_MISSING),
        "SRC-TWIN-GAP": _all(_DIES, _F.TWIN_GAP),
        "SRC-UNPACK": _all(_DIES, _F.UNPACK_MISMATCH),
    }
)
"""Clause or rule id -> the labels it can give -> the severity of each there."""

_RANK = {Severity.DIES: 0, Severity.WRONG: 1, Severity.GUARD: 2}


def severity_of(clause: str, fault: Fault) -> Severity:
    """The severity that `fault` has under `clause`.

    Raises:
        KeyError: the table doesn't let `clause` give `fault`.
    """
    return GIVES[clause][fault]


def worst_first(severity: Severity) -> int:
    """Sort key: `dies` before `wrong` before `guard`."""
    return _RANK[severity]
