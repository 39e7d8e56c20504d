"""Which engine releases can start a pair: the committed scans are asked, no engine is.

A release can start it when it registers the target's class with the hook of the method, registers
the draft's class, and no finding says that a start dies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from packaging.version import InvalidVersion, Version

from matrix.errors import UsageError
from matrix.faults import Severity, worst_first
from matrix.layouts import Claims, TargetFacts
from matrix.scan import Release, Table, load_table

__all__ = ["SCANNED", "Draft", "Start", "draft_class", "starts", "tables"]

SCANNED: Final = ("vllm", "sglang")
"""Engines with committed scans; the authors' code has no releases to tell apart."""

_LONGEST: Final = 120
"""Characters of a class name that are looked at."""
_LAST: Final = "SRC-LAST-LAYER"
# Letters of an `Entry.hook` that serve a method, the one that the engine asks for first in front.
_HOOKS: Final[Mapping[str, tuple[int, ...]]] = {"dspark": (1, 0), "eagle3": (2,)}
_WORDS: Final = {"m": "offers no hook", "u": "has a hook that the scan can't decide"}


@dataclass(frozen=True)
class Start:
    """What one release would do with the pair."""

    version: str
    verdict: Literal["starts", "wrong", "dies"]
    """`wrong`: it starts, and a finding says that its states are wrong."""
    why: str = ""
    last: bool = False
    """It only dies of the last layer's plane, which this target never captures."""


@dataclass(frozen=True)
class Draft:
    """The class that an engine would build the draft as."""

    name: str | None
    """`None` when it builds it as nothing."""
    why: str = ""


def tables(engines: Sequence[str]) -> dict[str, Table]:
    """The committed scans of the engines that have some."""
    return {engine: _table(engine) for engine in engines if engine in SCANNED}


@cache
def _table(engine: str) -> Table:
    return load_table(engine)


def starts(
    table: Table,
    said: Claims,
    target: TargetFacts,
    draft: Draft,
    *,
    last_tapped: bool,
    version: str | None,
) -> tuple[Start, ...]:
    """Every scanned release's answer, oldest first; of one release where `version` names it.

    Raises:
        UsageError: no such release was scanned.
    """
    releases = sorted(table.releases, key=lambda release: Version(release.version))
    if version is not None:
        releases = [release for release in releases if _same(release.version, version)]
        if not releases:
            known = ", ".join(release.version for release in table.releases)
            raise UsageError(f"--engine {table.engine}=={version}: not scanned; known are {known}")
    return tuple(_start(table, release, said, target, draft, last_tapped) for release in releases)


def _same(scanned: str, asked: str) -> bool:
    try:
        return Version(scanned) == Version(asked)
    except InvalidVersion:
        return False


def _start(
    table: Table,
    release: Release,
    said: Claims,
    target: TargetFacts,
    draft: Draft,
    last_tapped: bool,
) -> Start:
    version = release.version
    if draft.name is None:
        return Start(version, "dies", draft.why)
    if draft.name not in release.architectures:
        return Start(version, "dies", f"doesn't know the draft's class {draft.name}")
    entry = release.architectures.get(target.arch or "")
    if entry is None:
        return Start(
            version, "dies", f"doesn't know the target's class {target.arch!s:.{_LONGEST}}"
        )
    letters = [entry.hook[place] for place in _HOOKS.get(said.method, (0,))]
    if "o" not in letters:
        return Start(version, "dies", f"{target.arch} {_WORDS[letters[-1]]}")
    # The findings on the hook itself are DFlash's; another method has its own.
    own = said.method in ("dflash", "dflash2") or table.engine == "vllm"
    faults = [
        fault
        for fault in (table.faults[place] for place in entry.faults)
        if fault.severity != "guard"
        and (fault.rule != _LAST or last_tapped)
        and (own or not fault.rule.startswith("SRC-HOOK"))
    ]
    worst = min(faults, key=lambda fault: worst_first(Severity(fault.severity)), default=None)
    if worst is None:
        return Start(version, "starts")
    verdict: Literal["wrong", "dies"] = "dies" if worst.severity == Severity.DIES else "wrong"
    return Start(version, verdict, f"{worst.rule}: {worst.message}", worst.rule == _LAST)


# --- the draft's class -------------------------------------------------------------------------


def draft_class(engine: str, config: Mapping[str, Any], said: Claims, target: TargetFacts) -> Draft:
    """What an engine makes of the draft's `architectures` (vllm 0.32.0, sglang 0.5.23)."""
    classes = config.get("architectures")
    named = [str(name)[:_LONGEST] for name in classes] if isinstance(classes, list) else []
    if engine == "vllm" and said.layout == "speculators":
        return _vllm_speculators(config, said, named)
    if not named:
        return Draft(None, "finds no architectures in the draft's config")
    if engine == "vllm":
        return _vllm(named[0], config, said, target)
    if said.layout == "speculators":
        return Draft(None, "reads no speculators format")
    if said.layout == "in-checkpoint":
        return Draft(f"{named[0]}DSpark")
    return Draft(named[0])


def _vllm(name: str, config: Mapping[str, Any], said: Claims, target: TargetFacts) -> Draft:
    if said.method in ("dflash", "dflash2"):
        whole = name.startswith("DFlash") or name.endswith("DFlash") or name == "LiLiCorrDraftModel"
        return Draft(name if whole else f"DFlash{name}")
    if said.method == "eagle3":
        whole = name.startswith("Eagle3") or name.endswith("Eagle3")
        return Draft(name if whole else f"Eagle3{name}")
    if said.layout == "in-checkpoint" or name == "DSparkDraftModel":
        if config.get("model_type") == "qwen3":
            return Draft("Qwen3DSparkModel")
        in_target = {"deepseek_v4": "DSparkDraftModel", "deepseek_v41": "DSparkV41DraftModel"}
        if target.model_type not in in_target:
            return Draft(None, f"takes {name} for DeepSeek V4's own draft, which the target isn't")
        return Draft(in_target[target.model_type])
    return Draft(name)


def _vllm_speculators(config: Mapping[str, Any], said: Claims, named: list[str]) -> Draft:
    kind = config.get("speculators_model_type")
    if kind == "dspark":
        own = [name for name in named if name in ("Qwen3DSparkModel", "Qwen3OmniDSparkModel")]
        return Draft(own[0] if own else "Qwen3DSparkModel")
    if kind in ("eagle3", "peagle"):
        family = {"qwen3": "Qwen3", "llama": "Llama"}.get(str(said.body.get("model_type", "llama")))
        prefix = "Eagle3" if kind == "eagle3" else "Peagle"
        return Draft(
            f"{prefix}{family}ForCausalLM" if family else None, "builds Llama or Qwen3 heads"
        )
    built = {"dflash": "DFlashDraftModel", "dflash2": "DFlash2DraftModel"}
    name = built.get(kind) if isinstance(kind, str) else None
    return Draft(name, f"loads no speculators type {kind!r:.60}")
