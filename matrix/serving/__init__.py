"""How a server is started on a pair, such that the engine `server` fits.

Importing this imports no torch.
"""

from __future__ import annotations

from matrix.serving._cli import register

__all__ = ["register"]
