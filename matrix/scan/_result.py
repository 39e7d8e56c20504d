"""The result of a scan: what `--json` prints and what the committed results hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from matrix.errors import SourceError
from matrix.faults import Severity, worst_first

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Architecture", "Captures", "Finding", "Problem", "ScanResult", "load_result"]


class Finding(msgspec.Struct, frozen=True):
    """One rule that an architecture breaks."""

    rule: str
    fault: str
    """A label of `matrix.faults.Fault`."""
    severity: str
    """`dies`, `wrong` or `guard`."""
    file: str
    """From the folder that holds the package."""
    line: int
    message: str
    fix: str
    """The shape of a repair."""


class Captures(msgspec.Struct, frozen=True):
    """Where the body captures; `None` where the body can't be told."""

    before: bool | None
    """The state that enters a layer is captured, in the loop or in front of it."""
    after: bool | None
    """The state that leaves a layer is captured, in the loop."""
    final: bool | None
    """Boundary N, what leaves the last layer, can be captured."""
    enters: bool | None = None
    """For a number b that the hook leaves on the body, what enters layer b is captured; `False`:
    what leaves it; `None`: that can't be told."""


class Architecture(msgspec.Struct):
    """One architecture that the engine registers."""

    arch: str
    module: str
    cls: str = msgspec.field(name="class")
    body: str | None
    """The class whose layers capture, or would have to."""
    hook: dict[str, str]
    """Algorithm -> `offered`, `missing` or `unknown`."""
    inherited_from: str | None
    """The class that defines the hook, when it isn't the wrapper itself."""
    captures: Captures
    findings: list[Finding] = []
    unknown: list[str] = []
    """What couldn't be decided, and why."""


class Problem(msgspec.Struct, frozen=True):
    """A file that was left out of the scan."""

    file: str
    message: str


class ScanResult(msgspec.Struct):
    """One scanned engine."""

    engine: str
    version: str | None
    source: str
    architectures: list[Architecture]
    unregistered: list[str] = []
    """`module:class` of classes that define a hook and that nothing registers or builds on."""
    errors: list[Problem] = []

    def findings(self) -> list[tuple[Architecture, Finding]]:
        """All findings, worst first."""
        every = [(arch, finding) for arch in self.architectures for finding in arch.findings]
        return sorted(every, key=lambda pair: worst_first(Severity(pair[1].severity)))


def load_result(path: Path) -> ScanResult:
    """A scan's JSON.

    Raises:
        SourceError: the file can't be read, or isn't the JSON of a scan.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=ScanResult)
    except (OSError, msgspec.MsgspecError) as error:
        raise SourceError(f"{path}: not the JSON of a scan ({error})") from None
