"""`--engine-path`: an engine that isn't installed, as a folder to put first on a worker's path."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from matrix import cache
from matrix.errors import SourceError
from matrix.scan._source import open_source

__all__ = ["NotInstalled", "not_installed"]

_LARGEST_TREE: Final = 4 << 30
_PLACES: Final = ("", "python", "src")
"""Where a checkout keeps its package, from its root."""


@dataclass(frozen=True)
class NotInstalled:
    """An engine's package that lies in `folder`, and what it says of its version."""

    given: Path
    """As it was named."""
    folder: Path
    version: str

    def env(self) -> dict[str, str]:
        """What the worker is told, in its environment."""
        return {"MATRIX_ENGINE_PATH": str(self.folder), "MATRIX_ENGINE_VERSION": self.version}


def not_installed(engine: str, path: Path) -> NotInstalled:
    """The package of `engine` in a wheel, a checkout, or the folder that holds it.

    A wheel is unpacked into the cache, but for its compiled extensions: those fit the torch that
    they were built with and no other.

    Raises:
        SourceError: it isn't there, isn't a wheel, or holds no such engine.
    """
    with open_source(path, engine) as source:
        version = source.version or "unknown"
    if path.is_file():
        return NotInstalled(path, _unpacked(path, engine), version)
    for folder in (*(path / place for place in _PLACES), path.parent):
        if (folder / engine / "__init__.py").is_file():
            return NotInstalled(path, folder.resolve(), version)
    raise SourceError(
        f"{path}: no {engine}/__init__.py in it; give the folder that holds {engine}/"
    )


def _unpacked(wheel: Path, engine: str) -> Path:
    stat = wheel.stat()
    folder = cache.root() / "engines" / f"{wheel.stem}-{stat.st_size}-{stat.st_mtime_ns}"
    if folder.is_dir():
        return folder
    with zipfile.ZipFile(wheel) as archive, cache.atomic_dir(folder) as draft:
        wanted = [
            member
            for member in archive.infolist()
            if member.filename.startswith(f"{engine}/") and not member.filename.endswith(".so")
        ]
        if sum(member.file_size for member in wanted) > _LARGEST_TREE:
            raise SourceError(f"{wheel}: unpacks to more than {_LARGEST_TREE >> 30} GiB")
        archive.extractall(draft, wanted)  # zipfile itself strips `..` and leading slashes
    return folder
