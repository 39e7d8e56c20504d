"""The part of a log that belongs to a cell."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import quote

from matrix.results import Cell, Outcome, plain, redact

__all__ = ["LINES", "Log", "ends_of", "log_of"]

LINES: Final = 200
"""Lines of a log that are shown."""

_TAIL_BYTES: Final = 1 << 20
"""What is read from the end of a log when its last lines are wanted."""

_LINE_CHARS: Final = 1000
"""A longer line is cut; the log itself has it whole."""


@dataclass(frozen=True)
class Log:
    """The last lines of a cell's part of a log, and the log's address relative to the report."""

    href: str
    text: str


def ends_of(cells: Sequence[Cell]) -> list[int | None]:
    """For each cell the line at which the next cell's part of the same log begins, if one does."""
    ends: list[int | None] = [None] * len(cells)
    before: dict[tuple[str, str], int] = {}
    for place, cell in enumerate(cells):
        if cell.log is None or cell.log_line is None:
            continue
        previous = before.get((cell.run_id, cell.log))
        if previous is not None and cell.log_line >= (cells[previous].log_line or 0):
            ends[previous] = cell.log_line
        before[cell.run_id, cell.log] = place
    return ends


def log_of(cell: Cell, end: int | None, folder: Path | None, beside: Path) -> Log | None:
    """The log that a cell names, or `None` when there is none that can be read.

    A skipped cell has the address only: nothing ran that could have said something.

    Args:
        cell: its `log` is relative to `folder`, its `log_line` the first line of its part; without
            one the whole log is its part.
        end: the line at which the next cell's part begins; `None`: the log's end.
        folder: the journal's folder. A log outside it isn't shown, whatever the journal says.
        beside: the report's folder.
    """
    if folder is None or not cell.log:
        return None
    try:
        root = folder.resolve()
        path = (root / cell.log).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            return None
        lines = () if cell.outcome is Outcome.SKIP else _part(path, cell.log_line, end)
    except (OSError, ValueError):  # ValueError: a path with a NUL in it
        return None
    href = quote(Path(os.path.relpath(path, beside.resolve())).as_posix())
    # Its own folder in front: a name such as `javascript:x` is no address then.
    return Log(f"./{href}", redact(plain("\n".join(map(_show, lines)))))


def _part(path: Path, first: int | None, end: int | None) -> Iterable[bytes]:
    if first is None:
        return _last(path)
    begin = max(first - 1, 0)
    stop = None if end is None else max(end - 1, begin)
    with path.open("rb") as file:
        return deque(islice(file, begin, stop), maxlen=LINES)


def _last(path: Path) -> Iterable[bytes]:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return deque(file, maxlen=LINES)


def _show(line: bytes) -> str:
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    return text if len(text) <= _LINE_CHARS else f"{text[:_LINE_CHARS]}..."
