"""vLLM's model classes, looked at without a start: the live engine's, or an uninstalled one's."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

from torch import nn
from vllm.model_executor.models import interfaces
from vllm.model_executor.models.registry import ModelRegistry

from matrix.engines._classes import ClassEngine
from matrix.engines._messages import Hook, Probed
from matrix.errors import AdapterError, EngineError

__all__ = ["class_hook", "uninstalled"]


class Classes:
    """What can be said of the class registered for `arch`."""

    def __init__(self) -> None:
        self.arch = ""

    def hook(self) -> Hook:
        """The hook of the class that the registry has for the architecture."""
        entry = ModelRegistry.models.get(self.arch)
        if entry is None:
            raise EngineError("ValueError", f"{self.arch} is not in vLLM's model registry")
        return class_hook(entry.load_model_cls())

    def probe(self, ids: Any, depth: int, last_rank: bool) -> Probed:
        """The hook is not tried."""
        raise AdapterError("the hook is not tried apart from the runner")


def uninstalled() -> ClassEngine:
    """The classes of `--engine-path`: whether they offer the hook."""
    return ClassEngine("vllm", Classes(), ("hook",), [])


def class_hook(cls: type[nn.Module], body: type[nn.Module] | None = None) -> Hook:
    """What a target's class offers, in vLLM's own way of asking, and whether its body captures.

    Args:
        cls: the class that the engine holds.
        body: the inner class whose layers capture; by default those that `cls` names when it is
            built.
    """
    bodies = [body] if body else list(_bodies(cls))
    captures = any(issubclass(each, interfaces.EagleModelMixin) for each in bodies)
    offered = bool(interfaces.supports_eagle3(cls))
    inner = ", ".join(each.__name__ for each in bodies) or "an unknown body"
    detail = (
        f"supports_eagle3({cls.__name__}) is {offered}; "
        f"{inner} {'captures' if captures else 'does not capture'}"
    )
    return Hook(offered, captures if bodies else None, detail)


def _bodies(cls: type[nn.Module]) -> Iterator[type[nn.Module]]:
    """The module classes that the constructors of `cls` name, from the nearest one on."""
    for each in cls.__mro__:
        init = vars(each).get("__init__")
        if not inspect.isfunction(init):
            continue
        module = vars(sys.modules[each.__module__])
        named = [module.get(name) for name in init.__code__.co_names]
        found = [n for n in named if inspect.isclass(n) and issubclass(n, nn.Module)]
        bodies = [n for n in found if n.__name__.endswith("Model")]
        if bodies:
            yield from bodies
            return
