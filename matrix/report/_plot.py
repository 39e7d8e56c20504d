"""Bar plots of a captured plane's distance to every layer, as data for inline SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Bar", "Plot", "plots"]

HEIGHT: Final = 80
_STEP: Final = 12
_BAR: Final = 9
_LEAST: Final = 2
"""Height of the lowest bar, so that a perfect match is still seen."""


@dataclass(frozen=True)
class Bar:
    """One layer's bar; `x`, `y`, `width` and `height` in SVG units, y downwards."""

    x: int
    y: float
    width: int
    height: float
    role: str
    """`asked`, `matched`, `right` (asked and matched) or `other`."""
    title: str


@dataclass(frozen=True)
class Plot:
    """One plane: bars on a logarithmic scale from `10^low` at the bottom to `10^high`."""

    title: str
    width: int
    height: int
    low: int
    high: int
    bars: tuple[Bar, ...]


def plots(metrics: Mapping[str, Any]) -> list[Plot]:
    """The plots of `metrics["planes"]`: `[{"asked", "matched", "distances": [float]}]`.

    `distances` has one relative L2 distance per layer, in layer order. Whatever has another form
    is left out.
    """
    planes = metrics.get("planes")
    if not isinstance(planes, list):
        return []
    drawn = (_plot(number, plane) for number, plane in enumerate(planes))
    return [plot for plot in drawn if plot is not None]


def _plot(number: int, plane: Any) -> Plot | None:
    raw = plane.get("distances") if isinstance(plane, Mapping) else None
    distances = [_number(value) for value in raw] if isinstance(raw, list) else []
    logs = [math.log10(d) for d in distances if math.isfinite(d) and d > 0]
    if not logs:
        return None
    low = math.floor(min(logs))
    high = max(math.ceil(max(logs)), low + 1)
    asked, matched = _layer(plane.get("asked")), _layer(plane.get("matched"))

    def bar(layer: int, distance: float) -> Bar:
        share = 1.0 if not math.isfinite(distance) else 0.0
        if math.isfinite(distance) and distance > 0:
            share = (math.log10(distance) - low) / (high - low)
        height = round(max(_LEAST, HEIGHT * share), 1)
        role = _role(layer, asked, matched)
        title = f"layer {layer}: {distance:.3g}" + ("" if role == "other" else f" ({role})")
        return Bar(layer * _STEP, round(HEIGHT - height, 1), _BAR, height, role, title)

    bars = tuple(bar(layer, distance) for layer, distance in enumerate(distances))
    named = [
        f"layer {layer} {role}"
        for layer, role in ((asked, "asked"), (matched, "matched"))
        if layer is not None
    ]
    title = f"plane {number}: " + (", ".join(named) or "distances")
    return Plot(title, len(distances) * _STEP, HEIGHT, low, high, bars)


def _layer(value: Any) -> int | None:
    """The layer; `None` when the state is no layer's (the embeddings, zeros)."""
    return value if isinstance(value, int) else None


def _role(layer: int, asked: int | None, matched: int | None) -> str:
    if layer == asked:
        return "right" if asked == matched else "asked"
    return "matched" if layer == matched else "other"


def _number(value: Any) -> float:
    """The distance; NaN for what is none. Journals hold `inf` and `nan` as strings."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
