"""Where data that isn't code lies: beside the package in a checkout, inside it when installed."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["shipped"]

_PACKAGE: Final = Path(__file__).parent
_INSIDE: Final[Mapping[str, str]] = MappingProxyType(
    {"fixtures": "_fixtures", "tests/meta": "_meta"}
)
"""Folder of a checkout -> its name in the wheel, as pyproject.toml has it."""


def shipped(folder: str) -> Path:
    """`fixtures` or `tests/meta`, wherever this package was installed from."""
    inside = _PACKAGE / _INSIDE[folder]
    return inside if inside.is_dir() else _PACKAGE.parent / folder
