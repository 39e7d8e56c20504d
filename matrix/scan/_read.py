"""From files to facts: in parallel, and only once per content.

Facts are kept under the hash of the file's bytes (and of what reads them), so a second scan of a
changed tree parses the changed files only.
"""

from __future__ import annotations

import gc
import hashlib
import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from matrix.cache import atomic_file, root
from matrix.errors import SourceError
from matrix.scan._facts import ModuleFacts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matrix.scan._source import Source

__all__ = ["Reader", "digest", "keep", "own_digest"]

_WORTH_A_POOL: Final = 1 << 18
"""Bytes of source from which a pool of processes is faster than none."""

Parsed = tuple[bytes, str]
"""(encoded facts, "") or (b"", what is wrong)."""


@cache
def own_digest() -> bytes:
    """A hash of the code that reads and judges: what it kept before it changed isn't valid."""
    every = hashlib.blake2b(digest_size=16)
    for file in sorted(Path(__file__).parent.glob("*.py")):
        every.update(file.read_bytes())
    return every.digest()


def digest(data: bytes) -> str:
    """The name under which facts of a file are kept."""
    return hashlib.blake2b(data, digest_size=16, key=own_digest()).hexdigest()


class Reader:
    """The facts of one source's files, loaded as they are asked for.

    Args:
        source: where the files come from. Files that can't be read or parsed are added to its
            `errors`, and have empty facts from then on.
        keep: whether facts may be taken from and written to the cache.
    """

    def __init__(self, source: Source, *, keep: bool = True) -> None:
        self.source = source
        self._facts: dict[str, ModuleFacts] = {}
        self._data: dict[str, bytes] = {}
        self._folder = root() / "scan" / "facts" if keep else None

    def data(self, path: str) -> bytes:
        """The bytes of a file; empty when it can't be read."""
        if path not in self._data:
            try:
                self._data[path] = self.source.read(path)
            except SourceError as error:
                self._data[path] = b""
                self.source.errors.append((path, str(error).partition(": ")[2]))
        return self._data[path]

    def facts(self, path: str) -> ModuleFacts:
        """The facts of one file."""
        if path not in self._facts:
            self.load([path])
        return self._facts[path]

    def load(self, paths: Iterable[str]) -> None:
        """Has the facts of many files ready, computed side by side."""
        wanted = {p: self.data(p) for p in sorted(set(paths)) if p not in self._facts}
        missing = {}
        for path, data in wanted.items():
            kept = self._kept(data)
            if kept is None:
                missing[path] = data
            else:
                self._facts[path] = kept
        parsed = dict(zip(missing, _parse_all(list(missing.values())), strict=True))
        for path, (encoded, problem) in parsed.items():
            if problem:
                self.source.errors.append((path, problem))
                self._facts[path] = ModuleFacts()
                continue
            self._facts[path] = msgspec.msgpack.decode(encoded, type=ModuleFacts)
            if self._folder is not None:
                keep(self._file(missing[path]), encoded)

    def _file(self, data: bytes) -> Path:
        name = digest(data)
        assert self._folder is not None
        return self._folder / name[:2] / f"{name}.msgpack"

    def _kept(self, data: bytes) -> ModuleFacts | None:
        if self._folder is None:
            return None
        try:
            return msgspec.msgpack.decode(self._file(data).read_bytes(), type=ModuleFacts)
        except (OSError, msgspec.MsgspecError):
            return None


def keep(file: Path, encoded: bytes) -> None:
    """A cache that can't be written costs time and nothing else."""
    try:
        atomic_file(file, encoded)
    except OSError:
        return


def _parse(data: bytes) -> Parsed:
    from matrix.scan._names import module_facts

    try:
        return msgspec.msgpack.encode(module_facts(data)), ""
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        return b"", f"{where}{error.msg}; not parsed"
    except (ValueError, RecursionError, MemoryError) as error:
        return b"", f"{error or type(error).__name__}; not parsed"


def _parse_many(files: list[bytes]) -> list[Parsed]:
    # Trees of syntax hold no cycles, and the collector would walk all their nodes again and again.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return [_parse(data) for data in files]
    finally:
        if collecting:
            gc.enable()


def _parse_all(files: list[bytes]) -> list[Parsed]:
    workers = min(_spare_cores(), 8)
    if workers < 2 or sum(map(len, files)) < _WORTH_A_POOL:
        return _parse_many(files)
    shares = _shares(files, workers * 4)
    done: list[Parsed] = [(b"", "")] * len(files)
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        results = pool.map(_parse_many, [[files[i] for i in share] for share in shares])
        for share, parsed in zip(shares, results, strict=True):
            for i, one in zip(share, parsed, strict=True):
                done[i] = one
    return done


def _spare_cores() -> int:
    """Cores that forked processes may use; forking is the only start that pays for itself.

    It isn't safe beside threads, those of libraries included, and then there are none.
    """
    if sys.platform != "linux":
        return 1
    alone = sum(1 for _ in Path("/proc/self/task").iterdir()) == 1
    return len(os.sched_getaffinity(0)) if alone else 1


def _shares(files: list[bytes], count: int) -> list[list[int]]:
    """Indices in `count` shares of about equal size, large files first."""
    shares: list[list[int]] = [[] for _ in range(min(count, len(files)))]
    sizes = [0] * len(shares)
    for i in sorted(range(len(files)), key=lambda i: -len(files[i])):
        least = sizes.index(min(sizes))
        shares[least].append(i)
        sizes[least] += len(files[i])
    return shares
