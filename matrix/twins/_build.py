"""Building a twin: two checkpoints on disk, checked, cached by content. Imports torch when called."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import msgspec

from matrix import cache, canary
from matrix.errors import TwinError
from matrix.twins._recipe import HIDDEN, recipe
from matrix.twins._twin import Twin

if TYPE_CHECKING:
    from pathlib import Path

    from matrix.registry import Pair

__all__ = ["build"]

DTYPES: Final = ("float32", "bfloat16", "float16")
_MANIFEST: Final = "twin.json"
_CHECKS: Final = 2
"""Raised whenever the same bytes would be measured otherwise."""


class _Manifest(msgspec.Struct, frozen=True):
    """`twin.json`: the twin with folders as names, and the digest of each of its files."""

    twin: Twin
    files: dict[str, str]


def build(pair: Pair, dtype: str, root: Path | None = None) -> Twin:
    """The twin of `pair` in `dtype`; built unless it is in the cache, whole.

    Args:
        pair: the row.
        dtype: `float32`, `bfloat16` or `float16`.
        root: the folder that holds twins; by default `twins` in the project's cache.

    Raises:
        TwinError: the row can't have a twin here, or the twin's layers are too close to tell.
    """
    if dtype not in DTYPES:
        raise TwinError(f"{pair.key}: no twin in dtype {dtype!r}; dtypes are {', '.join(DTYPES)}")
    parts = recipe(pair) | _trained(pair)
    fingerprint = _fingerprint(parts, dtype)
    home = (root or cache.root() / "twins") / fingerprint
    # Asked first: what appears later is another process's, whole, and must stay.
    damaged = home.exists()
    if (found := _load(home)) is not None:
        return found
    if damaged:
        cache.remove(home)
    with cache.atomic_dir(home) as folder:
        _make(pair.key, parts, dtype, fingerprint, folder)
    made = _load(home)
    if made is None:
        raise TwinError(f"{pair.key}: {home} can't be read back; is the disk full?")
    return made


def _trained(pair: Pair) -> dict[str, Any]:
    """A canary's weights, by what they are; a twin's are drawn."""
    if pair.kind != "canary":
        return {}
    trained = canary.load(pair.key)
    return {"trained": {"key": pair.key, **trained.sha256}}


def _fingerprint(parts: dict[str, Any], dtype: str) -> str:
    """Hash of all that determines the bytes; random draws and file formats come from libraries."""
    libraries = {name: version(name) for name in ("torch", "transformers", "dflash", "safetensors")}
    text = json.dumps([parts, dtype, libraries, _CHECKS], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _load(home: Path) -> Twin | None:
    """The twin in `home`; `None` when it isn't there, or any of its files isn't what was written."""
    try:
        manifest = msgspec.json.decode((home / _MANIFEST).read_bytes(), type=_Manifest)
        if any(_digest(home / name) != digest for name, digest in manifest.files.items()):
            return None
    except (OSError, msgspec.DecodeError):
        return None
    return msgspec.structs.replace(
        manifest.twin, target=str(home / "target"), draft=str(home / "draft")
    )


def _make(key: str, parts: dict[str, Any], dtype: str, fingerprint: str, folder: Path) -> None:
    from matrix.twins import _models

    target = _models.target(key, parts)
    separation, noise = _models.separation(key, target, dtype)
    _models.save_target(target, parts["arch"], dtype, folder / "target")
    _models.save_draft(parts, dtype, folder / "draft")
    twin = Twin(
        target="target",
        draft="draft",
        fingerprint=fingerprint,
        arch=parts["arch"],
        depth=parts["depth"],
        width=HIDDEN,
        vocab_size=parts["target"]["vocab_size"],
        mask_token_id=parts["mask_token_id"],
        block_size=parts["block_size"],
        from_anchor=parts["from_anchor"],
        layer_ids=tuple(parts["target_layer_ids"]),
        layout=parts["layout"],
        dtype=dtype,
        separation=separation,
        noise=noise,
        notes=parts["notes"],
    )
    files = {
        path.relative_to(folder).as_posix(): _digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    (folder / _MANIFEST).write_bytes(msgspec.json.encode(_Manifest(twin, files)))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
