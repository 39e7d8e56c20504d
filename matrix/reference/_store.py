"""The reference's cache on disk: bounded, and never trusted without its checksum."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from matrix import cache
from matrix.reference._arrays import StateArrays

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["LIMIT", "Store"]

LIMIT: Final = 2 * 1024**3
"""Bytes that the files may take together."""
_SUM: Final = hashlib.sha256().digest_size


class Store:
    """Layer states by key, one file each: the SHA-256 of the rest, then msgpack.

    Args:
        folder: where the files lie; made when the first is written.
        limit: bytes that they may take together. Above it the oldest go, until a tenth is free.
    """

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        self._folder, self._limit = folder, limit
        self._used: int | None = None

    def get(self, key: str) -> StateArrays | None:
        """What was put under `key`; `None` when it isn't there, or isn't whole any more."""
        try:
            data = self._path(key).read_bytes()
            if hashlib.sha256(data[_SUM:]).digest() == data[:_SUM]:
                return msgspec.msgpack.decode(data[_SUM:], type=StateArrays)
        except (OSError, msgspec.DecodeError):
            pass
        return None

    def put(self, key: str, states: StateArrays) -> None:
        """Keep `states` under `key`; a full or read-only disk is no error, only slower."""
        payload = msgspec.msgpack.encode(states)
        try:
            cache.atomic_file(self._path(key), hashlib.sha256(payload).digest() + payload)
            self._make_room(_SUM + len(payload))
        except OSError:
            self._used = None

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.msgpack"

    def _make_room(self, added: int) -> None:
        # Counted once, then kept up: other writers' files are seen at the next count.
        self._used = self._measure() if self._used is None else self._used + added
        if self._used <= self._limit:
            return
        files = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime)
        self._used = self._measure()
        for path in files:
            if self._used <= 0.9 * self._limit:
                break
            self._used -= path.stat().st_size
            path.unlink(missing_ok=True)

    def _measure(self) -> int:
        return sum(path.stat().st_size for path in self._folder.iterdir())
