"""Contract test matrix for DFlash speculative decoding.

Importing this package imports neither torch nor any engine.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
