"""What other people wrote, read within bounds: JSON configs, and the header of a safetensors file.

Sizes, depth and numbers are bounded before anything looks at them. Nothing is executed, no weight
is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from matrix.errors import ConfigError

__all__ = ["CONFIG", "HEADER", "TOKENIZER", "Tensor", "header_length", "parse_header", "parse_json"]

CONFIG: Final = 4 << 20
"""Bytes of a `config.json` at most; the largest published ones have a hundredth."""
TOKENIZER: Final = 16 << 20
"""Bytes of a `tokenizer_config.json`, or of an index of shards, at most."""
HEADER: Final = 16 << 20
"""Bytes of a safetensors header at most; the format's own bound is 100 MB, a draft has kilobytes."""

_DEEPEST: Final = 64
_LARGEST: Final = 1 << 63


@dataclass(frozen=True)
class Tensor:
    """One tensor, as a safetensors header describes it."""

    dtype: str
    """`BF16`, `F32`, `U8`, ..."""
    shape: tuple[int, ...]


def parse_json(data: bytes, name: str) -> dict[str, Any]:
    """The table in a JSON file.

    Raises:
        ConfigError: it isn't JSON, isn't a table, is nested too deep, or holds a number that no
            config needs; with line and column where there are any.
    """
    try:
        value = json.loads(data.decode(), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: byte {error.start} is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{name}: {_where(error)}") from None
    except RecursionError:
        raise ConfigError(f"{name}: nested deeper than {_DEEPEST} levels") from None
    except ValueError as error:
        # Ours for NaN and the infinities, Python's for thousands of digits.
        said = str(error) if str(error).startswith("holds") else "holds a number beyond 64 bits"
        raise ConfigError(f"{name}: {said}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: holds {type(value).__name__}; it should be a table, {{...}}")
    _bound(value, name)
    return value


def header_length(data: bytes, name: str) -> int:
    """The length that a safetensors file gives for its header, from its first eight bytes.

    Raises:
        ConfigError: there are no eight bytes, or the length is beyond the bound.
    """
    if len(data) < 8:
        raise ConfigError(
            f"{name}: truncated; a safetensors file starts with eight bytes of length"
        )
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= HEADER:
        raise ConfigError(f"{name}: gives {length} bytes for its header; 2 to {HEADER} are read")
    return length


def parse_header(data: bytes, name: str) -> dict[str, Tensor]:
    """The tensors that a safetensors header names; `data` starts with the file's first byte.

    Raises:
        ConfigError: the header is shorter than it says, or isn't one.
    """
    length = header_length(data, name)
    if len(data) < 8 + length:
        raise ConfigError(
            f"{name}: truncated; its header should have {length} bytes, {len(data) - 8} are there"
        )
    table = parse_json(data[8 : 8 + length], f"{name} (header)")
    return {key: _tensor(key, entry, name) for key, entry in table.items() if key != "__metadata__"}


def _tensor(key: str, entry: Any, name: str) -> Tensor:
    fields: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {}
    dtype, shape = fields.get("dtype"), fields.get("shape")
    if (
        not isinstance(dtype, str)
        or not isinstance(shape, list)
        or not all(type(size) is int and size >= 0 for size in shape)
    ):
        raise ConfigError(f"{name}: {key[:80]!r} has no dtype and shape in the header")
    return Tensor(dtype, tuple(shape))


def _where(error: json.JSONDecodeError) -> str:
    before = error.doc[: error.pos].rstrip()
    # Python's own words for a trailing comma differ from release to release.
    trailing = before.endswith(",") or error.doc[error.pos : error.pos + 1] == ","
    closing = error.doc[error.pos :].lstrip(", \t\r\n")[:1]
    said = "a comma before a closing bracket" if trailing and closing in ("]", "}") else error.msg
    return f"line {error.lineno} column {error.colno}: not JSON: {said}"


def _refuse(constant: str) -> None:
    raise ValueError(f"holds {constant}, which is not JSON")


def _bound(root: Any, name: str) -> None:
    """Refuse what could choke later: by a walk without recursion."""
    level: list[Any] = [root]
    for _ in range(_DEEPEST):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, list):
                inner += value
            elif (isinstance(value, int) and abs(value) > _LARGEST) or (
                isinstance(value, float) and math.isinf(value)
            ):
                raise ConfigError(f"{name}: holds a number beyond 64 bits")
        if not inner:
            return
        level = inner
    raise ConfigError(f"{name}: nested deeper than {_DEEPEST} levels")
