"""What a report is made of, told apart by what it holds: journals, and the JSON of other commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from matrix.errors import UsageError
from matrix.results import Record, Score, one_line, read
from matrix.scan import Diff as ScanDiff
from matrix.scan import ScanResult, placed_in

__all__ = ["Inputs", "Judged", "Preflight", "open_inputs"]

_LARGEST: Final = 256_000_000
"""Bytes of a file that isn't a journal; the largest scan there is has a hundredth of that."""


class Judged(msgspec.Struct):
    """One clause of a preflight."""

    clause: str
    outcome: str
    message: str = ""
    fault: str | None = None
    expected: Any = None
    actual: Any = None


class Ids(msgspec.Struct):
    """The layer ids that a draft's config gives."""

    value: list[int] | None = None
    """As outputs of layers, whatever the file stores."""
    key: str | None = None
    semantics: str | None = None


class Start(msgspec.Struct):
    """Which releases of an engine can start the pair."""

    first: str | None = None
    starts: list[str] = []


class Preflight(msgspec.Struct):
    """What `preflight --json` prints."""

    target: str
    draft: str
    layout: str
    ids: Ids
    clauses: list[Judged]
    engines: dict[str, Start] = {}


@dataclass
class Inputs:
    """Everything that was given, each kind in the order given."""

    journals: list[Record] = field(default_factory=list)
    scans: list[tuple[str, ScanResult | ScanDiff]] = field(default_factory=list)
    """The file's name, and what a scan or `scan --diff` found."""
    preflights: list[Preflight] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)


_Add = Callable[[Inputs, Path, Any], None]

_KINDS: Final[tuple[tuple[frozenset[str], str, Any, _Add], ...]] = (
    (
        frozenset({"architectures", "engine"}),
        "scan",
        ScanResult,
        lambda into, file, value: into.scans.append((file.name, value)),
    ),
    (
        frozenset({"new_findings", "lost"}),
        "scan --diff",
        ScanDiff,
        lambda into, file, value: into.scans.append((file.name, value)),
    ),
    (
        frozenset({"misnamed", "planted"}),
        "selfcheck",
        Score,
        lambda into, file, value: into.scores.append(value),
    ),
    (
        frozenset({"clauses", "draft"}),
        "preflight",
        Preflight,
        lambda into, file, value: into.preflights.append(value),
    ),
)
"""For each command the keys that tell its JSON, its name, its form, and where it goes."""


def open_inputs(files: Sequence[Path]) -> Inputs:
    """Read every file.

    Args:
        files: journals, folders of runs, and what `scan`, `preflight` and `selfcheck` print with
            `--json`.

    Raises:
        UsageError: no file, or one that is none of these; among them `JournalError`.
    """
    if not files:
        raise UsageError("report: no file given; name at least one journal or run folder")
    inputs = Inputs()
    for file in files:
        found = None if file.is_dir() or file.suffix == ".jsonl" else _json_of(file)
        if found is None:
            inputs.journals.append(read(file))
        else:
            _take(inputs, file, found)
    return inputs


def _json_of(file: Path) -> Mapping[str, Any] | None:
    """The one object that a file holds; `None` for a journal and for what is no JSON."""
    try:
        with file.open("rb") as lines:
            first = lines.readline(_LARGEST)
            if _kind_of(first) in ("run", "start", "cell"):
                return None
            value = msgspec.json.decode(first + lines.read(_LARGEST))
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None  # the reader of journals says what is wrong
    return value if isinstance(value, dict) else None


def _kind_of(line: bytes) -> Any:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value.get("kind") if isinstance(value, dict) else None


def _take(into: Inputs, file: Path, found: Mapping[str, Any]) -> None:
    for keys, command, form, add in _KINDS:
        if keys <= found.keys():
            try:
                value = msgspec.convert(found, form)
                _check(value)
            except (msgspec.ValidationError, ValueError) as error:
                raise UsageError(f"{file}: not the JSON of `{command}`: {error}") from None
            return add(into, file, value)
    shown = one_line(", ".join(sorted(found)[:8]))[:200] or "none"
    raise UsageError(
        f"{file}: neither a journal nor what scan, preflight or selfcheck print with --json "
        f"(its keys: {shown})"
    )


def _check(value: Any) -> None:
    """Refuse severities that nobody knows: findings are sorted by them."""
    if isinstance(value, ScanResult | ScanDiff):
        placed_in(value)
