"""What can run a row: engine and transformers releases, drafting methods, streams."""

from __future__ import annotations

from typing import Final

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from matrix.registry._pair import Pair

__all__ = ["gated"]

_EMBEDDED: Final = "transformers"
_EMBEDDED_METHODS: Final = ("dflash", "dflash2")


def gated(pair: Pair, engine: str, version: str, transformers: str | None) -> str | None:
    """Why the row can't run on the engine, with the gate's own reason; `None` when it can.

    Pre-releases count as their version. A version that is not PEP 440 (a build from source) passes
    every gate: nothing is known of it.
    """
    for gate in pair.gates:
        if gate.engine == engine and not _within(version, gate.version):
            return f"needs {engine} {gate.version}, not {version}: {gate.reason}"
    if engine == _EMBEDDED and (why := _beyond_the_authors(pair)):
        return why
    bounds = [
        f">={pair.min_transformers_version}" if pair.min_transformers_version else "",
        f"<={pair.max_transformers_version}" if pair.max_transformers_version else "",
    ]
    wanted = ",".join(filter(None, bounds))
    if wanted and transformers and not _within(transformers, wanted):
        reason = pair.transformers_version_reason
        return f"needs transformers {wanted}, not {transformers}: {reason}"
    return None


def _beyond_the_authors(pair: Pair) -> str | None:
    """What the authors' drafting code has no class for."""
    method, streams = pair.speculative_method, pair.streams
    if method not in _EMBEDDED_METHODS:
        return f"the authors' code drafts with {' and '.join(_EMBEDDED_METHODS)}, not with {method}"
    if streams > 1:
        return f"the authors' code reads a target with one residual stream, not with {streams}"
    return None


def _within(version: str, specifier: str) -> bool:
    try:
        return SpecifierSet(specifier).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return True
