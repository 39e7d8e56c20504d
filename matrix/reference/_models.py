"""Loading the targets that the reference runs: transformers, on the CPU. Imports torch."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

import torch
import transformers

from matrix.errors import ReferenceFailed
from matrix.reference._layers import target_class

__all__ = ["Models", "fingerprint"]

KEPT: Final = 2
"""Models held in memory at once."""
_CHUNK: Final = 1 << 22


class Models:
    """Targets by folder and dtype; the least recently used goes when a third is asked for."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, str], Any] = OrderedDict()

    def get(self, target: str, dtype: str) -> Any:
        """The target in `dtype`, in eval mode, with eager attention.

        Raises:
            ReferenceFailed: it can't be loaded.
        """
        mark = (fingerprint(target), dtype)
        if mark not in self._held:
            while len(self._held) >= KEPT:
                self._held.popitem(last=False)
            self._held[mark] = _load(target, dtype)
        self._held.move_to_end(mark)
        return self._held[mark]


def fingerprint(target: str) -> str:
    """Hash of a checkpoint's config and weights, whatever its folder is called.

    Raises:
        ReferenceFailed: `target` is no folder with a config and safetensors.
    """
    folder = Path(target)
    files = [folder / "config.json", *sorted(folder.glob("*.safetensors"))]
    if len(files) < 2 or not files[0].is_file():
        raise ReferenceFailed(f"{target}: no folder with config.json and safetensors")
    stats = tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files)
    if (target, stats) not in _FINGERPRINTS:
        _FINGERPRINTS[target, stats] = _hash(files)
    return _FINGERPRINTS[target, stats]


_FINGERPRINTS: Final[dict[tuple[str, tuple[tuple[str, int, int], ...]], str]] = {}


def _hash(files: list[Path]) -> str:
    total = hashlib.sha256()
    for path in files:
        total.update(f"{path.name} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while part := file.read(_CHUNK):
                total.update(part)
    return total.hexdigest()[:32]


def _load(target: str, dtype: str) -> Any:
    config = transformers.AutoConfig.from_pretrained(target)
    name = (config.architectures or ["none"])[0]
    cls = target_class(name)
    if cls is None:
        raise ReferenceFailed(f"{target}: transformers {transformers.__version__} has no {name}")
    transformers.utils.logging.disable_progress_bar()
    model = cls.from_pretrained(
        target,
        dtype=getattr(torch, dtype),
        attn_implementation="eager",
        use_safetensors=True,
        local_files_only=True,
    )
    return model.eval()
