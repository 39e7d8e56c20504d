"""What stands in for things that SGLang imports and a machine without a GPU can't have.

Only a worker that serves SGLang loads this, before SGLang itself; with a GPU nothing is put in
place. Each stand-in is there to be imported: where one were called, it would raise. Their names
stand in every cell that was measured with them.

- `vllm._custom_ops`, in the folder `site` beside this file. Where SGLang finds no kernels of its
  own it imports vLLM's, and then takes its native code on a CPU.
- Two operators of torchvision, declared without a body. torchvision's own registration of their
  shapes fails where its compiled part was built for another torch (its CUDA build, over a CPU
  torch), and SGLang's image code imports torchvision.
- Triton's interpreter, for the kernels that SGLang has no native code for. It is Triton's own, and
  runs the same kernel source; SGLang's CPU mode is off, since that asks for kernels that are not
  published for it.
- A `transformers.AutoConfig.register` that lets a name be registered again, under `--engine-path`
  alone: an older release registers configs that a newer transformers brings itself, and would not
  import.
"""

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


def _put_in_place() -> tuple[list[str], list[torch.library.Library]]:
    """Names of the stand-ins, and what must be kept alive for them."""
    if torch.cuda.is_available():
        return [], []
    # Read when Triton and SGLang are imported.
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ["SGLANG_USE_CPU_ENGINE"] = "0"
    named, kept = ["triton (its interpreter)"], []
    if importlib.util.find_spec("vllm") is None:
        sys.path.append(str(_SITE))
        named.append("vllm._custom_ops")
    if not _registered("nms"):
        library = torch.library.Library("torchvision", "DEF")
        for operator in _OPERATORS:
            library.define(operator)
        kept.append(library)
        named.append("torchvision::nms, torchvision::qnms")
    if "MATRIX_ENGINE_PATH" in os.environ:
        _register_again()
        named.append("transformers.AutoConfig.register (twice is no error)")
    return named, kept


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


IN_PLACE, _KEPT = _put_in_place()
"""Names of the stand-ins that this process has."""
