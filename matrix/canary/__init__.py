"""The canary, and how a server is started on a pair.

Importing this imports no torch.
"""

from __future__ import annotations

from matrix.canary._cli import register

__all__ = ["register"]
