"""The part of a log that belongs to a cell."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import quote

from matrix.results import plain, redact

__all__ = ["LINES", "Log", "log_of"]

LINES: Final = 200
"""Lines of a log that are shown."""

_TAIL_BYTES: Final = 1 << 20
"""What is read from the end of a log when its last lines are wanted."""

_LINE_CHARS: Final = 1000
"""A longer line is cut; the log itself has it whole."""


@dataclass(frozen=True)
class Log:
    """The last lines of a cell's log, and the log's address relative to the report."""

    href: str
    text: str


def log_of(folder: Path | None, log: str | None, line: int | None, beside: Path) -> Log | None:
    """The log that a cell names, or `None` when there is none that can be read.

    Args:
        folder: the journal's folder. A log outside it isn't shown, whatever the journal says.
        log: the log's path, relative to `folder`.
        line: lines the log had when the cell ended; `None`: all.
        beside: the report's folder.
    """
    if folder is None or not log:
        return None
    try:
        root = folder.resolve()
        path = (root / log).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            return None
        lines = _first(path, line) if line is not None else _last(path)
    except (OSError, ValueError):  # ValueError: a path with a NUL in it
        return None
    href = quote(Path(os.path.relpath(path, beside.resolve())).as_posix())
    # Its own folder in front: a name such as `javascript:x` is no address then.
    return Log(f"./{href}", redact(plain("\n".join(map(_show, lines)))))


def _first(path: Path, count: int) -> Iterable[bytes]:
    with path.open("rb") as file:
        return deque(islice(file, max(count, 0)), maxlen=LINES)


def _last(path: Path) -> Iterable[bytes]:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return deque(file, maxlen=LINES)


def _show(line: bytes) -> str:
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    return text if len(text) <= _LINE_CHARS else f"{text[:_LINE_CHARS]}..."
