"""Inputs that earlier runs shrank to: kept as data, and replayed first next time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matrix import cache
from matrix.results import canonical

__all__ = ["load", "save"]

_MOST = 20


def _file(engine: str, pair: str, clause: str) -> Path:
    return cache.root() / "examples" / engine / pair / f"{clause}.json"


def load(engine: str, pair: str, clause: str) -> tuple[Any, ...]:
    """What was saved for a cell, newest first; nothing when there is none or it can't be read."""
    try:
        saved = json.loads(_file(engine, pair, clause).read_text())
    except (OSError, ValueError):
        return ()
    return tuple(saved) if isinstance(saved, list) else ()


def save(engine: str, pair: str, clause: str, examples: Iterable[Any]) -> None:
    """Put examples in front of those saved before, without doubles."""
    merged = {canonical(e): e for e in (*examples, *load(engine, pair, clause))}
    if not merged:
        return
    file = _file(engine, pair, clause)
    file.parent.mkdir(parents=True, exist_ok=True)
    cache.atomic_file(file, json.dumps(list(merged.values())[:_MOST]).encode())
