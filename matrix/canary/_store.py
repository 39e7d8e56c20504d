"""What is kept of a canary beside its row: language, weights, and what it was trained for."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from matrix.canary._language import Language
from matrix.errors import HarnessError
from matrix.shipped import shipped

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Canary", "digest", "folder", "load", "weights"]

_FILE: Final = "canary.json"


class Canary(msgspec.Struct, frozen=True):
    """A trained pair: `canary.json`, beside `target.safetensors` and `draft.safetensors`."""

    key: str
    """The row's."""
    language: Language
    trained_context: int
    """Positions up to which it was trained; probes stay below."""
    seed: int
    torch: str
    """The release that trained it."""
    sha256: dict[str, str]
    """Digests of the two files of weights."""


def folder(key: str) -> Path:
    """Where a canary lies."""
    return shipped("fixtures") / "canary" / key


def load(key: str) -> Canary:
    """The canary of a row.

    Raises:
        HarnessError: it was not trained, or its file is another format.
    """
    file = folder(key) / _FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=Canary)
    except FileNotFoundError:
        raise HarnessError(
            f"{file}: no such canary; `nox -s train-canaries -- {key}` makes it"
        ) from None
    except msgspec.MsgspecError as error:
        raise HarnessError(f"{file}: not a canary ({error})") from None


def weights(key: str, part: str) -> Path:
    """The file of weights of a canary's `target` or `draft`, checked against its digest.

    Raises:
        HarnessError: the file isn't the one that was trained.
    """
    file = folder(key) / f"{part}.safetensors"
    due = load(key).sha256[part]
    if (found := digest(file)) != due:
        raise HarnessError(f"{file}: sha256 is {found[:12]}, {due[:12]} is due; restore the file")
    return file


def digest(file: Path) -> str:
    """SHA-256 of a file, in hex.

    Raises:
        HarnessError: the file can't be read.
    """
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise HarnessError(f"{file}: {error.strerror}") from None
