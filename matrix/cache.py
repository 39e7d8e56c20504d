"""Where built twins, reference states and shrunk examples are kept between runs.

    <root>/twins/<fingerprint>/          a target and its draft
    <root>/reference/<key>.msgpack       layer states of one sequence
    <root>/examples/...                  Hypothesis examples, replayed first next time
    <root>/engines/<wheel>/              engines that are looked at without being installed

Everything here can be made again: deleting any of it costs time only.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

import platformdirs

from matrix.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KINDS", "Entry", "atomic_dir", "atomic_file", "clear", "entries", "remove", "root"]

Kind = Literal["twins", "reference", "examples", "scan", "engines"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""The kinds of entries, which are the names of the folders under the root."""


@dataclass(frozen=True)
class Entry:
    """One thing in the cache."""

    kind: Kind
    name: str
    """Its file or folder name."""
    bytes: int
    """Size on disk, of all its files."""
    mtime: float
    """When it was last written, in seconds since the epoch."""


def root() -> Path:
    """The cache's folder: `$DFLASH_MATRIX_CACHE`, else the user's cache folder. May not exist."""
    named = os.environ.get("DFLASH_MATRIX_CACHE")
    return Path(named) if named else platformdirs.user_cache_path("dflash-matrix")


def entries() -> list[Entry]:
    """Everything in the cache, oldest first, unfinished copies of ended writers included."""
    found = [_entry(kind, path) for kind in KINDS for path in _children(root() / kind)]
    return sorted((entry for entry in found if entry), key=lambda entry: entry.mtime)


def clear(kind: str | None = None) -> int:
    """Delete every entry of `kind`, or of all kinds; the number of bytes freed.

    Raises:
        UsageError: there is no such kind.
    """
    if kind is not None and kind not in KINDS:
        raise UsageError(f"cache: no kind {kind!r}; kinds are {', '.join(KINDS)}")
    chosen = [entry for entry in entries() if kind in (None, entry.kind)]
    for entry in chosen:
        remove(root() / entry.kind / entry.name)
    return sum(entry.bytes for entry in chosen)


def remove(path: Path) -> None:
    """Delete a file or a folder; nothing happens when another process was faster."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def atomic_dir(path: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes `path` at the end, whole or not at all.

    Writers may race for one path: the first to end wins, the others' copies are discarded. An
    exception in the block discards the copy.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield draft
        try:
            draft.replace(path)
        except OSError:
            if not path.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def atomic_file(path: Path, data: bytes) -> None:
    """Write `data` to `path`, whole or not at all; the last of several writers wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _children(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _entry(kind: Kind, path: Path) -> Entry | None:
    """`None` when the entry is deleted meanwhile by another process."""
    try:
        files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
        size = sum(file.stat().st_size for file in files)
        return Entry(kind, path.name, size, path.stat().st_mtime)
    except FileNotFoundError:
        return None
