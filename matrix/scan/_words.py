"""The words by which engines speak of capturing: hooks, containers of ids, flags."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["CONTAINER", "FLAG", "HOOKS", "INTEREST", "PLANES", "SHIFT_KEYS", "is_hook"]

HOOKS: Final = frozenset(
    {
        "set_aux_hidden_state_layers",
        "_set_aux_hidden_state_layers",
        "set_dflash_layers_to_capture",
        "set_dspark_layers_to_capture",
        "set_eagle3_layers_to_capture",
    }
)
"""The methods an engine calls to set the layers."""

CONTAINER: Final = re.compile(r"_?(\w+_)?(layers_to_capture|aux_hidden_state_layers)$")
"""Attributes in which a body keeps its boundaries."""

FLAG: Final = re.compile(r"_?is_layer_to_capture$")
"""Attributes that mark a single layer."""

PLANES: Final = re.compile(r"\w*aux\w*", re.IGNORECASE)
"""Variables that hold planes."""

SHIFT_KEYS: Final = ("target_layer_ids",)
"""Config keys and variables of a draft's layer ids."""

INTEREST: Final = (
    "supports_aux_hidden_states_over_pp",
    "verify_supports_aux_hidden_states_over_pp",
    "EntryClass",
)
"""Words whose bare presence in a file means that the engine has a mechanism."""


def is_hook(name: str) -> bool:
    """Whether a method of that name sets the layers."""
    return name in HOOKS
