"""Loading the registry: the built-in rows and expectations, then the user's TOML files."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from matrix.errors import RegistryError
from matrix.faults import Fault
from matrix.registry._expectation import Expectation
from matrix.registry._pair import Pair, default_key
from matrix.registry._rows import build, expectation_problems, pair_problems, refuse_unknown
from matrix.registry._select import Registry
from matrix.registry.rows import PAIRS

__all__ = ["UserConfig", "load", "user_config"]

_BUILT_IN_ROWS: Final = "matrix/registry/rows"
_BUILT_IN_EXPECTATIONS: Final = "matrix/registry/expectations.toml"
_LOST_WORKER: Final = ("crash", "timeout", "oom")


@dataclass(frozen=True)
class UserConfig:
    """The table `[tool.dflash-matrix]` of a `pyproject.toml`."""

    registry: tuple[Path, ...] = ()
    """Files of rows and expectations; relative ones start at the `pyproject.toml`."""
    python: Mapping[str, str] = field(default_factory=dict)
    """Engine name -> the interpreter that it runs under."""


@dataclass(frozen=True)
class _Table:
    """`UserConfig` as it is written."""

    registry: tuple[str, ...] = ()
    python: Mapping[str, str] = field(default_factory=dict)


def load(files: Sequence[Path] = (), *, allow_remote_code: bool = False) -> Registry:
    """The built-in rows and expectations, then those of `files`, in that order.

    Args:
        files: TOML files with `[[pair]]` and `[[expectation]]` tables.
        allow_remote_code: honour `trust_remote_code = true` in them; else it is set to false and
            the row's key kept in `Registry.remote_code_refused`.

    Raises:
        RegistryError: a file can't be read, or a row in it is not well formed.
    """
    pairs = {pair.key: pair for pair in PAIRS}
    origin = dict.fromkeys(pairs, _BUILT_IN_ROWS)
    own = Path(__file__).with_name("expectations.toml")
    expectations = list(_expectations(_parse(own, _BUILT_IN_EXPECTATIONS), _BUILT_IN_EXPECTATIONS))
    refused: list[str] = []
    for path in files:
        file = str(path)
        document = _parse(path, file)
        for row in _pairs(document, file, pairs):
            if row.key in pairs:
                raise RegistryError(
                    file, row.key, "key", f"duplicate key; {origin[row.key]} has it too"
                )
            if row.trust_remote_code and not allow_remote_code:
                refused.append(row.key)
                row = replace(row, trust_remote_code=False)
            pairs[row.key], origin[row.key] = row, file
        expectations += _expectations(document, file)
    return Registry(pairs, tuple(expectations), tuple(files), tuple(refused))


def user_config(directory: Path) -> UserConfig:
    """What the nearest `pyproject.toml`, in `directory` or above it, has for this project.

    Raises:
        RegistryError: the file is not TOML, or the table holds an unknown key or a wrong type.
    """
    here = directory.resolve()
    places = (folder / "pyproject.toml" for folder in (here, *here.parents))
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        return UserConfig()
    row = "[tool.dflash-matrix]"
    table = _parse_toml(path, str(path)).get("tool", {}).get("dflash-matrix", {})
    if not isinstance(table, dict):
        raise RegistryError(str(path), row, None, "should be a table")
    written = build(_Table, table, str(path), row)
    return UserConfig(tuple(path.parent / file for file in written.registry), written.python)


def _pairs(document: Mapping[str, Any], file: str, taken: Mapping[str, Pair]) -> Iterator[Pair]:
    for position, table in enumerate(document.get("pair", ()), 1):
        row = _name(table, f"pair #{position}")
        pair = build(Pair, {"key": _key(table, taken)} | table, file, row)
        for name, problem in pair_problems(pair):
            raise RegistryError(file, pair.key, name, problem)
        yield pair


def _key(table: Mapping[str, Any], taken: Mapping[str, Pair]) -> str:
    """The key of a row that gives none: its draft's, the owner in front where another has that."""
    draft = str(table.get("speculative_model", ""))
    key = default_key(draft)
    other = taken.get(key)
    clash = other is not None and other.speculative_model != draft
    return draft.lower().replace("/", "-") if clash else key


def _expectations(document: Mapping[str, Any], file: str) -> Iterator[Expectation]:
    for position, table in enumerate(document.get("expectation", ()), 1):
        row = f"expectation #{position}"
        # A lost worker leaves no fault to name.
        lost = {"fault": Fault.UNKNOWN.value} if table.get("outcome") in _LOST_WORKER else {}
        parsed = build(Expectation, lost | table, file, row, hidden=("file", "position"))
        examples = tuple(_example(example, file, row) for example in parsed.examples)
        parsed = replace(parsed, examples=examples, file=file, position=position)
        for name, problem in expectation_problems(parsed):
            raise RegistryError(file, row, name, problem)
        yield parsed


def _example(written: Any, file: str, row: str) -> Any:
    """A pinned input: a string is JSON text (TOML has no null), all else stands for itself."""
    if not isinstance(written, str):
        return written
    try:
        return json.loads(written)
    except ValueError:
        raise RegistryError(file, row, "examples", f"{written!r} is not JSON text") from None


def _name(table: Mapping[str, Any], position: str) -> str:
    key = table.get("key")
    return key if isinstance(key, str) and key else position


def _parse(path: Path, file: str) -> dict[str, Any]:
    """A registry file: arrays of tables `pair` and `expectation`, nothing else."""
    document = _parse_toml(path, file)
    refuse_unknown(document, ("pair", "expectation"), file, "top level")
    for name, rows in document.items():
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise RegistryError(file, "top level", name, f"should be written as [[{name}]] tables")
    return document


def _parse_toml(path: Path, file: str) -> dict[str, Any]:
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise RegistryError(file, "whole file", None, f"{error.strerror or error}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise RegistryError(file, f"line {line}", None, "is not UTF-8 text") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said, _, at = str(error).partition(" (at ")
        found = re.match(r"line (\d+)", at)
        line = int(found[1]) if found else text.count("\n") + 1
        raise RegistryError(file, f"line {line}", None, f"is not TOML: {said}") from None
