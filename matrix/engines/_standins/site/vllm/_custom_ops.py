"""Every name is there, and raises when it is called; see `matrix.engines._standins`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name.startswith("__"):
        raise AttributeError(name)

    def standin(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"vllm._custom_ops.{name} is a stand-in without a kernel")

    return standin
