"""The part of a log that belongs to a cell."""

from __future__ import annotations

import os
from array import array
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from matrix.results import Cell, Outcome, plain, redactor

__all__ = ["LINES", "Log", "LogReader", "ends_of"]

LINES: Final = 200
"""Lines of a log that are shown."""

_TAIL_BYTES: Final = 1 << 20
"""What is read from the end of a log when its last lines are wanted."""

_LINE_CHARS: Final = 1000
"""A longer line is cut; the log itself has it whole."""


_BUDGET: Final = 8_000_000
"""Characters of all logs that one report shows; beyond it a cell has the address only."""


class Log(msgspec.Struct, frozen=True):
    """The last lines of a cell's part of a log, and the log's address relative to the report."""

    href: str
    text: str
    left_out: bool = False
    """There is more than the report can hold."""


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


@dataclass
class LogReader:
    """Reads the parts of logs that a report shows, until they are as much as one file can hold.

    Args:
        folders: run id -> the journal's folder. A log outside it isn't shown, whatever the journal
            says.
        beside: the report's folder.
    """

    folders: Mapping[str, Path]
    beside: Path
    left: int = _BUDGET

    def __post_init__(self) -> None:
        """Resolve once what every log is compared with."""
        self._roots = {run: folder.resolve() for run, folder in self.folders.items()}
        self._beside = self.beside.resolve()
        self._starts: dict[Path, array[int]] = {}
        self._hide = redactor()

    def read(self, cell: Cell, end: int | None) -> Log | None:
        """The log that a cell names, or `None` when there is none that can be read.

        A skipped cell has the address only: nothing ran that could have said something.

        Args:
            cell: its `log` is relative to the journal's folder, its `log_line` the first line of
                its part; without one the whole log is its part.
            end: the line at which the next cell's part begins; `None`: the log's end.
        """
        root = self._roots.get(cell.run_id)
        if root is None or not cell.log:
            return None
        try:
            path = (root / cell.log).resolve()
            if not path.is_relative_to(root) or not path.is_file():
                return None
            skipped = cell.outcome is Outcome.SKIP or self.left <= 0
            lines = () if skipped else self._part(path, cell.log_line, end)
        except (OSError, ValueError):  # ValueError: a path with a NUL in it
            return None
        href = quote(Path(os.path.relpath(path, self._beside)).as_posix())
        text = self._hide(plain("\n".join(map(_show, lines))))
        left_out = self.left <= 0 and cell.outcome is not Outcome.SKIP
        self.left -= len(text)
        # Its own folder in front: a name such as `javascript:x` is no address then.
        return Log(f"./{href}", text, left_out)

    def _part(self, path: Path, first: int | None, end: int | None) -> Iterable[bytes]:
        if first is None:
            return _last(path)
        if path not in self._starts:  # once for all cells of a row, whose parts lie in one log
            self._starts[path] = _line_starts(path)
        starts = self._starts[path]
        lines = len(starts) - 1
        begin = min(max(first - 1, 0), lines)
        stop = lines if end is None else min(max(end - 1, begin), lines)
        begin = max(begin, stop - LINES)
        with path.open("rb") as file:
            file.seek(starts[begin])
            return list(islice(file, stop - begin))


def _line_starts(path: Path) -> array[int]:
    """Where each line begins, in bytes; last the file's size."""
    starts = array("Q", [0])
    with path.open("rb") as file:
        for line in file:
            starts.append(starts[-1] + len(line))
    return starts


def _last(path: Path) -> Iterable[bytes]:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return deque(file, maxlen=LINES)


def _show(line: bytes) -> str:
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    return text if len(text) <= _LINE_CHARS else f"{text[:_LINE_CHARS]}..."
