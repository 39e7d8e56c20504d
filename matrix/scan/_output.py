"""What a scan or a diff looks like: text, JSON, SARIF 2.1.0, annotations of a pull request."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

from matrix.faults import Severity, worst_first
from matrix.scan._diff import Change, Diff
from matrix.scan._result import Finding, ScanResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = [
    "RULES",
    "annotation",
    "as_json",
    "diff_text",
    "grouped",
    "placed_in",
    "sarif",
    "sarif_log",
    "sarif_results",
    "text",
    "workflow_commands",
]

Placed = tuple[str, Finding]
"""(architecture, finding)."""

RULES: Final = {
    "SRC-HOOK-MISSING": "The body captures and the wrapper doesn't offer the hook, or the hook "
    "doesn't reach the body.",
    "SRC-HOOK-ABSENT": "Neither wrapper nor body has the mechanism.",
    "SRC-HOOK-HOLLOW": "The hook is offered and the body never captures.",
    "SRC-HOOK-SHADOWED": "A later definition of the hook in the same class hides a different one.",
    "SRC-TAP-SHIFT": "Resolver, runner, hook and body together deliver another layer.",
    "SRC-TAP-UNCHECKED": "Nothing on the way refuses ids out of range, unordered or twice.",
    "SRC-LAST-LAYER": "The last layer's output can be asked for and is never captured.",
    "SRC-NONE-UNCHECKED": "A missing list of ids isn't refused by the hook.",
    "SRC-PP-SILENT": "A pipeline rank loses its planes without a word.",
    "SRC-ALGO-GAP": "The hook is offered for another algorithm and not for DFlash.",
    "SRC-TWIN-GAP": "Platform twins of one architecture differ in hook or capture.",
    "SRC-UNPACK": "Planes are returned in one shape and taken apart in another.",
}
"""Rule -> what it says, in one sentence."""

_LEVELS: Final = {"dies": "error", "wrong": "warning", "guard": "note"}
_COMMANDS: Final = {"dies": "error", "wrong": "warning", "guard": "notice"}


def as_json(value: ScanResult | Diff) -> str:
    """A result as JSON, indented."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def placed_in(value: ScanResult | Diff) -> list[Placed]:
    """A scan's findings, or a diff's new ones, worst first.

    Raises:
        ValueError: a severity that nobody knows.
    """
    if isinstance(value, Diff):
        found = [(placed.arch, placed.finding) for placed in value.new_findings]
        return sorted(found, key=lambda pair: worst_first(Severity(pair[1].severity)))
    return [(arch.arch, finding) for arch, finding in value.findings()]


def grouped(placed: Iterable[Placed]) -> list[tuple[Finding, list[str]]]:
    """Findings at one place, with all architectures that share it; worst first."""
    groups: dict[Finding, list[str]] = {}
    for arch, finding in placed:
        groups.setdefault(finding, []).append(arch)
    return sorted(
        groups.items(),
        key=lambda g: (worst_first(Severity(g[0].severity)), g[0].rule, g[0].file, g[0].line),
    )


def _archs(names: list[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"


def text(result: ScanResult) -> str:
    """A scan for people."""
    return "\n".join(_text(result))


def _text(result: ScanResult) -> Iterator[str]:
    version = f" {result.version}" if result.version else ""
    yield f"{result.engine}{version}: {len(result.architectures)} architectures ({result.source})"
    for algorithm in next((a.hook for a in result.architectures), {}):
        answers = [a.hook[algorithm] for a in result.architectures]
        counts = (f"{answers.count(word)} {word}" for word in ("offered", "missing", "unknown"))
        yield f"  {algorithm:<7} {', '.join(counts)}"
    yield from _finding_lines(placed_in(result))
    doubtful = [a for a in result.architectures if a.unknown]
    if doubtful:
        yield f"undecided: {len(doubtful)} architectures"
        for arch in doubtful:
            yield f"  {arch.arch}: {'; '.join(arch.unknown)}"
    if result.unregistered:
        yield f"hooks that nothing registers: {', '.join(result.unregistered)}"


def _finding_lines(placed: list[Placed]) -> Iterator[str]:
    for finding, archs in grouped(placed):
        yield f"{finding.severity}  {finding.rule}  {finding.file}:{finding.line}  {_archs(archs)}"
        yield f"    {finding.message}"
        yield f"    repair: {finding.fix}"


def diff_text(diff: Diff) -> str:
    """A diff for people."""
    lines = [f"{diff.engine}: {diff.old} -> {diff.new}"]
    for word, changes in (("lost", diff.lost), ("gained", diff.gained)):
        lines += [f"{word}  {what}: {_archs(archs)}" for what, archs in _by_what(changes)]
    if diff.new_findings:
        lines += ["new findings:", *_finding_lines(placed_in(diff))]
    if diff.fixed_findings:
        fixed = [(placed.arch, placed.finding) for placed in diff.fixed_findings]
        lines += [f"repaired  {f.rule}: {_archs(archs)}" for f, archs in grouped(fixed)]
    if len(lines) == 1:
        lines.append("nothing gained, nothing lost")
    return "\n".join(lines)


def _by_what(changes: list[Change]) -> list[tuple[str, list[str]]]:
    groups: dict[str, list[str]] = {}
    for change in changes:
        groups.setdefault(change.what, []).append(change.arch)
    return sorted(groups.items())


def workflow_commands(placed: list[Placed], prefix: str = "") -> str:
    """Workflow commands that annotate a pull request, one a line.

    Args:
        placed: what to annotate.
        prefix: the path from the repository's root to the folder that holds the package.
    """
    return "\n".join(
        annotation(
            _COMMANDS[finding.severity],
            f"{finding.rule} ({_archs(archs)})",
            f"{finding.message}. Repair: {finding.fix}",
            prefix + finding.file,
            finding.line,
        )
        for finding, archs in grouped(placed)
    )


def annotation(level: str, title: str, said: str, file: str = "", line: int = 0) -> str:
    """One workflow command: a note beside the lines of a pull request, or on its job.

    Args:
        level: `error`, `warning` or `notice`.
        title: its heading.
        said: its text; newlines stay.
        file: where it stands, from the repository's root; empty for nowhere.
        line: the line in it, from 1.
    """
    where = f"file={_property(file)},line={line}," if file else ""
    return f"::{level} {where}title={_property(title)}::{_data(said)}"


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def sarif(placed: list[Placed], version: str, prefix: str = "") -> str:
    """Findings as a SARIF 2.1.0 log; one result per place, fingerprinted without its line."""
    return sarif_log(RULES, sarif_results(placed, prefix), version)


def sarif_results(placed: list[Placed], prefix: str = "") -> list[dict[str, Any]]:
    """Findings as SARIF results, worst first."""
    return [_result(finding, archs, prefix) for finding, archs in grouped(placed)]


def sarif_log(rules: Mapping[str, str], results: list[dict[str, Any]], version: str) -> str:
    """A SARIF 2.1.0 log of one run.

    Args:
        rules: rule or clause id -> what it says, in one sentence; every result's is among them.
        results: SARIF results.
        version: of this project.
    """
    places = {rule: place for place, rule in enumerate(rules)}
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "dflash-matrix",
                "semanticVersion": version,
                "rules": [
                    {"id": rule, "shortDescription": {"text": said}} for rule, said in rules.items()
                ],
            }
        },
        "results": [
            {"ruleId": found["ruleId"], "ruleIndex": places[found["ruleId"]], **found}
            for found in results
        ],
    }
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(log, indent=2) + "\n"


def _result(finding: Finding, archs: list[str], prefix: str) -> dict[str, Any]:
    key = f"{finding.rule} {finding.fault} {finding.file} {' '.join(sorted(archs))}"
    return {
        "ruleId": finding.rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{_archs(archs)}: {finding.message}. Repair: {finding.fix}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": prefix + finding.file},
                    "region": {"startLine": max(finding.line, 1)},
                }
            }
        ],
        "partialFingerprints": {
            "place/v1": hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
        },
        "properties": {"fault": finding.fault, "architectures": archs},
    }
