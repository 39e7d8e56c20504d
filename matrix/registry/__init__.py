"""What pairs exist, and which of their failures are known."""

from __future__ import annotations

from matrix.registry._expectation import Expectation
from matrix.registry._gates import gated
from matrix.registry._load import UserConfig, load, user_config
from matrix.registry._pair import Baseline, Gate, Pair, default_key
from matrix.registry._select import Registry

__all__ = [
    "Baseline",
    "Expectation",
    "Gate",
    "Pair",
    "Registry",
    "UserConfig",
    "default_key",
    "gated",
    "load",
    "user_config",
]
