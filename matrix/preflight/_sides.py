"""One side of a pair: a folder, a `config.json`, or a hub id."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from matrix.errors import ConfigError
from matrix.preflight._files import (
    CONFIG,
    HEADER,
    TOKENIZER,
    Tensor,
    header_length,
    parse_header,
    parse_json,
)
from matrix.preflight._hub import HubId, fetch, hub_id

__all__ = ["Side", "open_draft", "open_target"]

_WEIGHTS: Final = "model.safetensors"
_INDEX: Final = "model.safetensors.index.json"
_MOST_SHARDS: Final = 16
_FIRST: Final = 64 << 10
"""Bytes that hold most drafts' whole header."""


@dataclass(frozen=True)
class Side:
    """What was read of one checkpoint. What it doesn't have is `None`."""

    name: str
    """As it was given, without a revision."""
    config: Mapping[str, Any]
    tokenizer: Mapping[str, Any] | None = None
    """`tokenizer_config.json`; of a target only."""
    tensors: Mapping[str, Tensor] | None = field(default=None, repr=False)
    """From the headers of its safetensors files; of a draft only."""
    hub: bool = False
    """Whether the name is a hub id."""
    revision: str | None = None
    """Full hash of the commit it came from."""


Read = Callable[[str, int, bool], bytes | None]
"""A file's bytes by its plain name, bound and "the start is enough"; `None` when it isn't there."""


def open_target(text: str) -> Side:
    """Read a target's config and tokenizer config.

    Raises:
        ConfigError: a file can't be had or read; the message names it.
    """
    side, read = _open(text)
    data = read("tokenizer_config.json", TOKENIZER, False)
    tokenizer = parse_json(data, f"{side.name}: tokenizer_config.json") if data else None
    return replace(side, tokenizer=tokenizer)


def open_draft(text: str) -> Side:
    """Read a draft's config, and the headers of its weights.

    Raises:
        ConfigError: a file can't be had or read; the message names it.
    """
    side, read = _open(text)
    return replace(side, tensors=_tensors(read, side.name))


def _open(text: str) -> tuple[Side, Read]:
    path = Path(text)
    if path.is_dir():
        return _local(text, path, "config.json"), _in_folder(path)
    if path.exists():
        return _local(text, path.parent, path.name), _nothing
    where = hub_id(text)
    if where is None or text.endswith(".json"):
        raise ConfigError(
            f"{text!r:.200}: no such folder or file, and no hub id (owner/name, owner/name@revision)"
        )
    return _remote(where)


def _local(name: str, folder: Path, file: str) -> Side:
    data = _in_folder(folder)(file, CONFIG, False)
    if data is None:
        raise ConfigError(f"{name}: has no {file}")
    return Side(name, parse_json(data, str(folder / file)))


def _remote(where: HubId) -> tuple[Side, Read]:
    answer = fetch(where, "config.json", CONFIG)
    name = where.repo + (f"/{where.folder}" if where.folder else "")
    if answer is None:
        raise ConfigError(f"{name}: has no config.json")
    # Later files come from the same commit, whatever is pushed meanwhile.
    pinned = replace(where, revision=answer.commit or where.revision)

    def read(file: str, limit: int, start: bool) -> bytes | None:
        got = fetch(pinned, file, limit, start=start)
        return got.data if got else None

    config = parse_json(answer.data, f"{name}: config.json")
    return Side(name, config, hub=True, revision=answer.commit), read


def _in_folder(folder: Path) -> Read:
    def read(file: str, limit: int, start: bool) -> bytes | None:
        path = folder / file
        if not path.exists():
            return None
        if not path.is_file():
            raise ConfigError(f"{path}: not a plain file")
        try:
            with path.open("rb") as stream:
                data = stream.read(limit + (not start))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        if len(data) > limit:
            raise ConfigError(f"{path}: larger than {limit} bytes; that much isn't read")
        return data

    return read


def _nothing(file: str, limit: int, start: bool) -> None:
    """A lone `config.json` has no siblings that count."""


def _tensors(read: Read, name: str) -> dict[str, Tensor] | None:
    index = read(_INDEX, TOKENIZER, False)
    shards = [_WEIGHTS] if index is None else _shards(index, f"{name}: {_INDEX}")
    if len(shards) > _MOST_SHARDS:  # a whole target with its draft inside
        return None
    found: dict[str, Tensor] = {}
    for shard in shards:
        label = f"{name}: {shard}"
        data = read(shard, _FIRST, True)
        if data is None:
            return None
        needed = 8 + header_length(data, label)
        if len(data) < needed and len(data) == _FIRST:
            data = read(shard, min(needed, 8 + HEADER), True) or b""
        found |= parse_header(data, label)
    return found


def _shards(index: bytes, name: str) -> list[str]:
    """The files that an index names: plain names, or it is no index to follow."""
    table = parse_json(index, name).get("weight_map")
    files = sorted({str(file) for file in table.values()}) if isinstance(table, dict) else []
    for file in files:
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*\.safetensors", file, re.ASCII):
            raise ConfigError(f"{name}: names {file!r:.80}, which is no file beside it")
    return files
