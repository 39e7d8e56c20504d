"""Captured planes as the report draws them: each with its distance to every layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["PlaneView", "planes_of"]


class PlaneView(msgspec.Struct, frozen=True):
    """One plane."""

    asked: int | None
    """The layer that was asked for; `None` where the state is no layer's."""
    matched: int | None
    """The layer that is nearest."""
    distances: list[float | None]
    """Relative L2 to each layer, in layer order, to three digits; `None`: it is no number."""


def planes_of(metrics: Mapping[str, Any]) -> list[PlaneView]:
    """The planes of `metrics["planes"]`: `[{"asked", "matched", "distances": [float]}]`.

    Whatever has another form is left out.
    """
    planes = metrics.get("planes")
    if not isinstance(planes, list):
        return []
    found = (_plane(plane) for plane in planes if isinstance(plane, Mapping))
    return [plane for plane in found if plane is not None]


def _plane(plane: Mapping[str, Any]) -> PlaneView | None:
    raw = plane.get("distances")
    if not isinstance(raw, list):
        return None
    distances = [_number(value) for value in raw]
    if not any(distance for distance in distances):
        return None  # nothing that a logarithmic scale could show
    return PlaneView(_layer(plane.get("asked")), _layer(plane.get("matched")), distances)


def _layer(value: Any) -> int | None:
    """The layer; `None` when the state is no layer's (the embeddings, zeros)."""
    return value if type(value) is int else None


def _number(value: Any) -> float | None:
    """The distance; `None` for what is none. Journals hold `inf` and `nan` as strings."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return float(f"{number:.3g}") if math.isfinite(number) and number >= 0 else None
