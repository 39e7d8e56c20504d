"""Version gates of a row: which engine and transformers releases can run it."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from matrix.registry._pair import Pair

__all__ = ["gated"]


def gated(pair: Pair, engine: str, version: str, transformers: str | None) -> str | None:
    """Why the row can't run on these releases, with the gate's own reason; `None` when it can.

    Pre-releases count as their version. A version that is not PEP 440 (a build from source) passes
    every gate: nothing is known of it.
    """
    for gate in pair.gates:
        if gate.engine == engine and not _within(version, gate.version):
            return f"needs {engine} {gate.version}, not {version}: {gate.reason}"
    bounds = [
        f">={pair.min_transformers_version}" if pair.min_transformers_version else "",
        f"<={pair.max_transformers_version}" if pair.max_transformers_version else "",
    ]
    wanted = ",".join(filter(None, bounds))
    if wanted and transformers and not _within(transformers, wanted):
        reason = pair.transformers_version_reason
        return f"needs transformers {wanted}, not {transformers}: {reason}"
    return None


def _within(version: str, specifier: str) -> bool:
    try:
        return SpecifierSet(specifier).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return True
