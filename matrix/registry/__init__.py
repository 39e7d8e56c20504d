"""What pairs exist, and which of their failures are known."""

from __future__ import annotations

from matrix.registry._expectation import Expectation
from matrix.registry._gates import gated
from matrix.registry._import import import_vllm, imported_lines
from matrix.registry._load import UserConfig, load, user_config
from matrix.registry._pair import Baseline, Gate, Pair, Variant, default_key
from matrix.registry._select import Registry
from matrix.registry._show import SETTINGS, as_json, as_line, gaps
from matrix.registry.rows import PAIRS

__all__ = [
    "PAIRS",
    "SETTINGS",
    "Baseline",
    "Expectation",
    "Gate",
    "Pair",
    "Registry",
    "UserConfig",
    "Variant",
    "as_json",
    "as_line",
    "default_key",
    "gaps",
    "gated",
    "import_vllm",
    "imported_lines",
    "load",
    "user_config",
]
