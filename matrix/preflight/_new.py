"""A registry row from two configs, as TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

from matrix.errors import LayoutError
from matrix.layouts import read
from matrix.preflight._subject import Subject, number
from matrix.registry import Pair, default_key

__all__ = ["row"]

_METHODS: Final = get_args(get_type_hints(Pair)["speculative_method"])


def row(pair: Subject, taken: Mapping[str, Pair]) -> str:
    """The `[[pair]]` table of a pair; a fact that no config states is left out.

    Args:
        pair: both configs.
        taken: rows that there are already, by key.

    Raises:
        LayoutError: what a row needs isn't there, or contradicts itself.
    """
    facts, target = read(pair.config), pair.facts
    if target.arch is None or target.depth is None:
        what = "architectures" if target.arch is None else "num_hidden_layers"
        raise LayoutError(f"{pair.target.name}: the config states no {what}, and a row needs it")
    if not facts.ids:
        raise LayoutError(
            f"{pair.draft.name}: the config states no layer ids, and a row needs them"
        )
    if facts.method not in _METHODS:
        raise LayoutError(f"{pair.draft.name}: method {facts.method!r} is none of {_METHODS}")
    key, notes = _key(pair, taken)
    fields: dict[str, Any] = {
        "key": key,
        "target": pair.target.name,
        "speculative_model": pair.draft.name,
        "speculative_method": facts.method,
        "draft_class": pair.classes.get("vllm", pair.classes[pair.engines[0]]).name,
        "arch": target.arch,
        "num_target_layers": target.depth,
        "target_layer_ids": list(facts.ids),
        "id_semantics": facts.semantics,
        "layout": facts.layout,
        "hidden_size": target.hidden_size,
        "vocab_size": target.vocab_size,
        "streams": pair.facts.streams if pair.facts.streams > 1 else None,
        "width_factor": _factor(pair),
        "block_size": facts.block_size,
        "mask_token_id": facts.mask_token_id,
        "draft_num_hidden_layers": facts.num_hidden_layers,
        "draft_layer_types": _kinds(pair),
        "draft_sliding_window": number(pair.inner("swa_window_size"))
        or number(pair.body("sliding_window")),
        "draft_vocab_size": _reduced(facts.draft_vocab_size, target.vocab_size),
        "revision": pair.draft.revision,
        "source": f"{pair.draft.name}: config.json",
        "confidence": "config",
    }
    lines = [f"# {note}" for note in notes]
    lines += [
        "[[pair]]",
        *(f"{name} = {_toml(value)}" for name, value in fields.items() if value is not None),
    ]
    return "\n".join(lines)


def _key(pair: Subject, taken: Mapping[str, Pair]) -> tuple[str, list[str]]:
    """A key that is free, and what a reader should know of it."""
    owned = pair.draft.name.lower().replace("/", "-")
    plain = default_key(pair.draft.name) if pair.draft.hub else _of_path(Path(pair.draft.name))
    if plain not in taken:
        return plain, []
    first = owned if pair.draft.hub else plain
    places = chain([first], (f"{first}-{place}" for place in count(2)))
    free = next(place for place in places if place not in taken)
    return free, [f"the registry has a row {plain!r} already"]


def _of_path(path: Path) -> str:
    """The name of a folder, or of a file, with nothing that a key can't hold."""
    named = path.resolve().parent if path.name == "config.json" else path.resolve()
    stem = named.stem if named.suffix == ".json" else named.name
    kept = re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("._-")
    return kept or "draft"


def _factor(pair: Subject) -> int | None:
    """Plane width over hidden size, where streams are joined side by side."""
    width, streams = pair.facts.hidden_size, pair.facts.streams
    stated = number(pair.config.get("target_hidden_size"))
    return streams if streams > 1 and width and stated == width * streams else None


def _kinds(pair: Subject) -> list[str] | None:
    kinds = pair.body("layer_types") if pair.said.own else None
    return kinds if isinstance(kinds, list) and all(isinstance(k, str) for k in kinds) else None


def _reduced(draft: int | None, vocab: int | None) -> int | None:
    return None if draft == vocab else draft


def _toml(value: Any) -> str:
    """A string, whole number or list of those, as TOML writes it; its strings are JSON's, nearly."""
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, str):
        # TOML has neither lone surrogates nor a bare DEL.
        text = value.encode("utf-8", "replace").decode()
        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)
