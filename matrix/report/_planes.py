"""Captured planes as the report draws them: each with its distance to every layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

__all__ = ["PlaneView", "planes_of"]

_ONE: Final = ord("o")
"""Stands for a distance of 1; each character above or below for a tenth of a decade."""
_LOWEST, _HIGHEST, _NONE = "!", "~", " "


class PlaneView(msgspec.Struct, frozen=True):
    """One plane."""

    asked: int | None
    """The layer that was asked for; `None` where the state is no layer's."""
    matched: int | None
    """The layer that is nearest."""
    to_asked: float | None
    """Relative L2 to the layer asked for, to three digits."""
    to_matched: float | None
    levels: str
    """A character for each layer, in layer order: ten times the decimal logarithm of its distance,
    added to the code of `o`. `!` is 1.6e-8 or less, `~` is 32 or more, a space is no number."""


def planes_of(metrics: Mapping[str, Any]) -> list[PlaneView]:
    """The planes of `metrics["planes"]`: `[{"asked", "matched", "distances": [float]}]`.

    Whatever has another form is left out.
    """
    raw = metrics.get("planes")
    planes = [one for one in raw if isinstance(one, Mapping)] if isinstance(raw, list) else []
    table = _numbers([one.get("distances") for one in planes])
    if table is None:  # depths differ, or one has no distances
        single = ([one] for one in planes) if len(planes) > 1 else ()
        return [view for one in single for view in planes_of({"planes": one})]
    views = zip(planes, table.tolist(), _levels(table), strict=True)
    return [_plane(*view) for view in views if view[2].strip(_NONE + _LOWEST)]


def _plane(plane: Mapping[str, Any], distances: list[float], levels: str) -> PlaneView:
    asked, matched = _layer(plane.get("asked")), _layer(plane.get("matched"))
    return PlaneView(asked, matched, _at(distances, asked), _at(distances, matched), levels)


def _layer(value: Any) -> int | None:
    """The layer; `None` when the state is no layer's (the embeddings, zeros)."""
    return value if type(value) is int else None


def _numbers(raw: list[Any]) -> npt.NDArray[np.float64] | None:
    """Distances, `[planes, layers]`, NaN for what is none; journals hold `inf` as a string."""
    try:
        table = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    if table.ndim != 2:
        return None
    table[~np.isfinite(table) | (table < 0)] = np.nan
    return table


def _levels(table: npt.NDArray[np.float64]) -> list[str]:
    tenths = np.round(10 * np.log10(np.where(table > 0, table, 1e-9)))
    codes = np.clip(tenths + _ONE, ord(_LOWEST), ord(_HIGHEST))
    codes[np.isnan(table)] = ord(_NONE)
    return [row.tobytes().decode("ascii") for row in codes.astype(np.uint8)]


def _at(distances: list[float], layer: int | None) -> float | None:
    if layer is None or not 0 <= layer < len(distances) or math.isnan(distances[layer]):
        return None
    return float(f"{distances[layer]:.3g}")
