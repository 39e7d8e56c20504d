"""Writing a journal: JSON Lines, one object a line, each written whole the moment it is known."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from matrix.errors import JournalError
from matrix.results._cell import Cell, RunHeader, StartLine
from matrix.results._json import legal
from matrix.results._text import redactor

__all__ = ["NAME", "Journal", "Line", "journal_file"]

NAME: Final = "journal.jsonl"
"""A journal's file name inside a run's folder."""

Line = RunHeader | StartLine | Cell


def journal_file(path: Path) -> Path:
    """The journal at `path`, which is a journal itself or the folder of a run."""
    is_file = path.exists() and not path.is_dir()
    return path if is_file or (path.suffix == ".jsonl" and not path.is_dir()) else path / NAME


class Journal:
    """An open journal; lines are appended, from any thread, and secrets hidden.

    A line goes to the file with one call and no buffer of ours, so that whatever was written
    outlives this process. Opening a journal that was cut inside a line ends that line first.

    Args:
        path: the file, or a run's folder; missing folders are made.

    Raises:
        JournalError: the journal can't be opened or written; what was written before stays valid.
    """

    def __init__(self, path: Path) -> None:
        self.path = journal_file(path)
        self._lock = threading.Lock()
        self._file: int | None = None
        self._torn = False

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(self.path, flags, 0o644)
            size = os.fstat(self._file).st_size
            self._torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
        except OSError as error:
            raise self._unwritable(error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def write(self, line: Line) -> None:
        """Append one line.

        Raises:
            JournalError: the file can't be written (disk full, journal closed).
        """
        value = legal(line, redactor())
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        data = text.encode() + b"\n"
        with self._lock:
            if self._file is None:
                raise JournalError(f"{self.path}: the journal is closed; write inside its `with`")
            try:
                self._append(self._file, b"\n" + data if self._torn else data)
            except OSError as error:
                raise self._unwritable(error) from error

    def _append(self, file: int, data: bytes) -> None:
        # A disk that fills up takes part of a line; the next line must not be glued to it.
        rest = memoryview(data)
        while rest:
            written = os.write(file, rest)
            rest = rest[written:]
            self._torn = bool(rest)

    def _unwritable(self, error: OSError) -> JournalError:
        return JournalError(
            f"{self.path}: the journal can't be written ({error.strerror or error}); "
            "it needs a writable folder with free space"
        )
