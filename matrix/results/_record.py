"""Reading journals: tolerant of what a killed or newer writer left, strict about the schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from matrix.errors import JournalError
from matrix.results._cell import SCHEMA, Cell, RunHeader, StartLine
from matrix.results._journal import Line, journal_file

__all__ = ["Record", "latest", "merge", "read"]

_FAST: Final = msgspec.json.Decoder(RunHeader | StartLine | Cell, strict=False)
_KINDS: Final[dict[str, type[Line]]] = {"run": RunHeader, "start": StartLine, "cell": Cell}


@dataclass
class Record:
    """What one journal holds, or several merged.

    `cells` are all cell lines in the order they were written, so a cell that was judged again
    stands there more than once; `latest` keeps the last of each.
    """

    headers: list[RunHeader] = field(default_factory=list)
    starts: list[StartLine] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """One line for each line that could not be read."""
    folders: dict[str, Path] = field(default_factory=dict)
    """Run id -> the journal's folder, against which a cell's `log` is relative."""


def read(path: Path) -> Record:
    """The journal at `path`, a file or the folder of a run.

    Unknown fields and kinds are ignored. A half-written last line is dropped and noted, a bad line
    elsewhere is skipped and noted.

    Raises:
        JournalError: no such journal, no header, or a higher schema than this reader knows.
    """
    file = journal_file(path)
    record = Record()
    try:
        with file.open("rb") as lines:
            for number, data in enumerate(lines, 1):
                _take(record, file, number, data)
    except OSError as error:
        reason = error.strerror or str(error)
        raise JournalError(
            f"{file}: the journal can't be read ({reason}); give a journal or a run's folder"
        ) from error
    if not record.headers:
        raise JournalError(f"{file}: not a journal: it holds no `run` header line")
    record.folders.update((header.run_id, file.parent) for header in record.headers)
    return record


def _take(record: Record, file: Path, number: int, data: bytes) -> None:
    if not data.strip():
        return
    try:
        line = _read_line(file, data)
    except (ValueError, RecursionError) as error:
        cut = not data.endswith(b"\n")
        what = "half-written last line dropped" if cut else "line skipped"
        reason = "" if cut else f": {str(error)[:200]}"
        record.problems.append(f"{file.name}:{number}: {what}{reason}")
        return
    match line:
        case RunHeader():
            record.headers.append(line)
        case StartLine():
            record.starts.append(line)
        case Cell():
            record.cells.append(line)


def _read_line(file: Path, data: bytes) -> Line | None:
    try:
        line: Line = _FAST.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return _line(file, json.loads(data))  # which tells what is unknown from what is wrong
    if isinstance(line, RunHeader):
        _check(file, line.schema)
    return line


def _check(file: Path, schema: int) -> None:
    if schema > SCHEMA:
        raise JournalError(f"{file}: schema {schema} is newer than {SCHEMA}, the newest known here")


def _line(file: Path, value: Any) -> Line | None:
    if not isinstance(value, dict):
        raise ValueError(f"an object was due, {type(value).__name__} found")
    kind = _KINDS.get(str(value.get("kind")))
    if kind is None:
        return None
    schema = value.get("schema")
    if kind is RunHeader and isinstance(schema, int):
        _check(file, schema)
    # Not strict: floats that JSON can't hold stand as strings ("inf").
    line: Line = msgspec.convert(value, kind, strict=False)
    return line


def merge(records: Iterable[Record]) -> Record:
    """One record of several, in the order given."""
    merged = Record()
    for record in records:
        merged.headers += record.headers
        merged.starts += record.starts
        merged.cells += record.cells
        merged.problems += record.problems
        merged.folders.update(record.folders)
    return merged


def latest(cells: Sequence[Cell]) -> Iterator[Cell]:
    """The last line of each cell, in the order in which the cells first appeared."""
    last = {cell.key: cell for cell in cells}
    return iter(last.values())
