"""What a target's config says of the model that hands its states over.

A multimodal target keeps its text model one or two levels down; the states are the text model's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from matrix.errors import LayoutError
from matrix.layouts._claims import whole

__all__ = ["TargetFacts", "read_target"]

_TEXT: Final = ("text_config", "llm_config", "language_config", "thinker_config")
_DEPTH: Final = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
_WIDTH: Final = ("hidden_size", "n_embd", "d_model")


@dataclass(frozen=True)
class TargetFacts:
    """A fact that the config doesn't state as a positive whole number is `None`."""

    arch: str | None
    """The outer class, by which an engine finds its model."""
    model_type: str | None
    """Of the outer config."""
    text: Mapping[str, Any]
    """The text model's own table, the whole config where there is no other."""
    where: str
    """The key of that table, dotted and with a dot behind it; empty for the whole config."""
    depth: int | None
    """Decoder layers, each pass of a loop model counted (SGLang: `num_loops`)."""
    hidden_size: int | None
    vocab_size: int | None
    streams: int
    """Residual streams side by side (`hc_mult`); 1 almost everywhere."""


def read_target(config: Mapping[str, Any]) -> TargetFacts:
    """Resolve a target's parsed `config.json`.

    Raises:
        LayoutError: the table of the text model is something else.
    """
    where, text = _text(config)
    classes = config.get("architectures")
    arch = classes[0] if isinstance(classes, list) and classes else None
    kind = config.get("model_type")
    depth = _positive(text, *_DEPTH)
    return TargetFacts(
        arch=arch if isinstance(arch, str) else None,
        model_type=kind if isinstance(kind, str) else None,
        text=text,
        where=where,
        depth=depth and depth * (_positive(text, "num_loops") or 1),
        hidden_size=_positive(text, *_WIDTH),
        # Some families state the vocabulary of text and image tokens outside.
        vocab_size=_positive(text, "vocab_size") or _positive(config, "vocab_size"),
        streams=_positive(text, "hc_mult") or 1,
    )


def _text(config: Mapping[str, Any], where: str = "") -> tuple[str, Mapping[str, Any]]:
    for key in _TEXT:
        inner = config.get(key)
        if inner is not None and not isinstance(inner, Mapping):
            raise LayoutError(f"{where}{key} is {inner!r:.60}; it should be a table")
        if inner and where.count(".") < 2:
            return _text(inner, f"{where}{key}.")
    return where, config


def _positive(config: Mapping[str, Any], *keys: str) -> int | None:
    values: Iterator[Any] = (config.get(key) for key in keys)
    return next((value for value in values if whole(value) and value > 0), None)
