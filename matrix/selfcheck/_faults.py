"""The planted faults, the harmless changes, and the committed table of consequences."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from matrix.errors import HarnessError
from matrix.shipped import shipped

__all__ = ["META", "in_ci", "planted", "table"]

META: Final = shipped("tests/meta")
"""Where they lie."""


def table() -> dict[str, dict[str, dict[str, str]]]:
    """The committed consequences: engine -> planted file -> clause -> label or outcome."""
    return {name: faults for name, faults in _committed().items() if name != "ci"}


def in_ci(engine: str) -> frozenset[str]:
    """The files that every CI run drills; the others are drilled by hand."""
    files = {file.stem for kind in ("planted", "harmless") for file in planted(kind, engine)}
    return frozenset(_committed()["ci"].get(engine, files))


def planted(kind: str, engine: str) -> list[Path]:
    """The files of `planted` or `harmless` for an engine."""
    return sorted((META / kind / engine).glob("*.py"))


def _committed() -> dict[str, Any]:
    file = META / "consequences.toml"
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise HarnessError(
            f"{file}: {error.strerror}; install the wheel, or run from a checkout"
        ) from None
