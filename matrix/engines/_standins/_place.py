"""Puts the stand-ins in place, once, when it is imported."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, Final

import torch
import transformers

__all__ = ["IN_PLACE"]

_SITE: Final = Path(__file__).parent / "site"
_OPERATORS: Final = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_KEPT: Final[list[torch.library.Library]] = []
"""Operators are gone when what declared them is."""


def _put_in_place() -> list[str]:
    """Names of the stand-ins that are needed here."""
    named = [] if torch.cuda.is_available() else _without_gpu()
    if "MATRIX_ENGINE_PATH" in os.environ:
        _register_again()
        named.append("transformers.AutoConfig.register (twice is no error)")
    return named


def _without_gpu() -> list[str]:
    # Read when Triton and SGLang are imported.
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ["SGLANG_USE_CPU_ENGINE"] = "0"
    named = ["triton (its interpreter)"]
    if importlib.util.find_spec("vllm") is None:
        sys.path.append(str(_SITE))
        named.append("vllm._custom_ops")
    if not _registered("nms"):
        library = torch.library.Library("torchvision", "DEF")
        for operator in _OPERATORS:
            library.define(operator)
        _KEPT.append(library)
        named.append("torchvision::nms, torchvision::qnms")
    return named


def _register_again() -> None:
    register = transformers.AutoConfig.register

    def lenient(model_type: str, config: Any, exist_ok: bool = False) -> None:
        register(model_type, config, exist_ok=True)

    transformers.AutoConfig.register = lenient


def _registered(operator: str) -> bool:
    """Whether the installed torchvision brings the operator itself."""
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):
        # What it left half imported would be taken for whole.
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        return False
    return hasattr(torch.ops.torchvision, operator)


IN_PLACE: Final = _put_in_place()
"""Names of the stand-ins that this process has."""
