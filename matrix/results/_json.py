"""JSON-legal values, and the one canonical form of an example."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

import msgspec

__all__ = ["canonical", "legal"]

_DEEPEST: Final = 100
"""Levels that are kept: json and every reader of it recurse, and engines can hand over anything."""


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def legal(value: Any, say: Callable[[str], str] = _encodable, depth: int = 0) -> Any:
    """`value` as JSON has it: structs, arrays, sets and enums become what they hold.

    NaN and the infinities become the strings `nan`, `inf` and `-inf`; whatever JSON doesn't know
    becomes its `str`. `say` is applied to every string and key.
    """

    def item(inner: Any) -> Any:
        return legal(inner, say, depth + 1)

    match value:
        case None | bool():
            return value
        case str():
            return say(_encodable(value))
        case int() | float():
            return _number(value)
        case _ if depth >= _DEEPEST:
            return "..."
        case Mapping():
            return {say(_encodable(str(key))): item(inner) for key, inner in value.items()}
        case list() | tuple():
            return [item(inner) for inner in value]
    return item(_unfolded(value))


def _number(value: float) -> int | float | str:
    """A plain number, whatever subclass it was, or the name of one that JSON can't hold."""
    if isinstance(value, int):
        return int(value)
    return float(value) if math.isfinite(value) else str(float(value))


def _unfolded(value: Any) -> Any:
    """What a value that JSON doesn't know holds, one level of it."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        tag = {config.tag_field: config.tag} if config.tag_field else {}
        return {**tag, **{name: getattr(value, name) for name in value.__struct_fields__}}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if hasattr(value, "tolist"):  # arrays and their scalars, of any library
        return value.tolist()
    return str(value)


def canonical(example: Any) -> str:
    """The canonical JSON of an example: keys sorted, no spaces. `1`, `1.0` and `true` differ."""
    return json.dumps(legal(example), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
