"""What is right: layer states and greedy tokens from transformers.

Importing this imports no torch; the process that serves the reference does.
"""

from __future__ import annotations

from matrix.reference._arrays import GreedyRun, StateArrays
from matrix.reference._client import Reference
from matrix.reference._states import States

__all__ = ["GreedyRun", "Reference", "StateArrays", "States"]
