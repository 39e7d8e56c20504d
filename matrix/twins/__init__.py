"""Twins: tiny random-weight models of a row's architecture, with its real depth and layer ids.

Importing this imports no torch; building a twin does.
"""

from __future__ import annotations

from matrix.twins._build import build
from matrix.twins._recipe import lacking, recipe
from matrix.twins._twin import NOISE, Twin, served_as, unbuilt

__all__ = ["NOISE", "Twin", "build", "lacking", "recipe", "served_as", "unbuilt"]
