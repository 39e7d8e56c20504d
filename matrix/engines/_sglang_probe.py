"""A model's capture hook, tried on an object of its class that was never loaded.

The object is an instance of the real class, built without its constructor, with stand-ins for what
a hook looks at: the pipeline group, the config, the layers, and below it the inner model, which is
such an object of its own class. So wrapper, body and what they hand on are SGLang's own code.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Final

from torch import nn

__all__ = ["made_up", "reached", "standin"]

_INNER: Final = ("model", "language_model", "llm")
"""Attributes under which SGLang's wrappers hold an inner model."""
_BUILT: Final = r"self\.{name}(?:\s*:[^=\n]+)?\s*=\s*\(?\s*([\w.]+)\("
_HELD: Final = re.compile(r"layers_to_capture")
_FLAG: Final = re.compile(r"layer_to_capture")


def standin(cls: type[Any], depth: int, *, last_rank: bool) -> Any:
    """An object of `cls` for a target of `depth` layers.

    Args:
        cls: the class that SGLang would hold.
        depth: number of decoder layers.
        last_rank: the only pipeline rank; else the first one of two.
    """
    made: Any = object.__new__(cls)
    nn.Module.__init__(made)
    config = SimpleNamespace(num_hidden_layers=depth, num_loops=1)
    config.text_config = config
    parts = {
        "config": config,
        "pp_group": SimpleNamespace(
            is_first_rank=True, is_last_rank=last_rank, world_size=1 if last_rank else 2
        ),
        "layers": [SimpleNamespace(layer_id=i, mlp_ar_fusable=False) for i in range(depth)],
        "start_layer": 0,
        "end_layer": depth,
    }
    for name in _INNER:
        inner = _inner_class(cls, name)
        if inner is not None:
            parts[name] = standin(inner, depth, last_rank=last_rank)
    for name, value in parts.items():
        # What the class computes itself, as a property, is its own.
        if not isinstance(inspect.getattr_static(cls, name, None), property):
            object.__setattr__(made, name, value)
    return made


def reached(made: Any) -> list[int] | None:
    """The boundaries that the innermost body holds after a hook call; `None` for none."""
    found: list[int] | None = None
    for each in _chain(made):
        held = [value for name, value in vars(each).items() if _HELD.search(name) and value]
        if held:
            kept = held[-1]
            found = sorted(kept) if isinstance(kept, set | frozenset) else list(kept)
        flagged = [
            number
            for number, layer in enumerate(vars(each).get("layers", ()))
            if any(_FLAG.search(name) and value for name, value in vars(layer).items())
        ]
        found = found if found is not None else (flagged or None)
    return found


def _chain(made: Any) -> Iterator[Any]:
    """The object and what it holds, outermost first."""
    yield made
    for name in _INNER:
        if name in vars(made):
            yield from _chain(vars(made)[name])


def made_up(made: Any, error: Exception) -> bool:
    """Whether a hook failed because the stand-in lacks something that a loaded model has.

    Methods are the class's own, so a hook that is missing further in is missing on a loaded model.
    """
    if not isinstance(error, AttributeError) or str(error.name).startswith("set_"):
        return False
    return isinstance(error.obj, SimpleNamespace) or any(error.obj is e for e in _chain(made))


def _inner_class(cls: type[Any], name: str) -> type[Any] | None:
    """The module class that the nearest constructor builds for attribute `name`."""
    for each in cls.__mro__:
        init = vars(each).get("__init__")
        if not inspect.isfunction(init):
            continue
        built = re.search(_BUILT.format(name=name), inspect.getsource(init))
        if built is None:
            continue
        found = _named(cls, init, built[1])
        return found if inspect.isclass(found) and issubclass(found, nn.Module) else None
    return None


def _named(cls: type[Any], init: Any, word: str) -> Any:
    """What a word in a constructor builds: of the class, of a parameter, or of its module."""
    first, *rest = word.split(".")
    if first == "self":
        value: Any = cls
    elif first in inspect.signature(init).parameters:
        value = _default(cls, first)
    else:
        value = vars(sys.modules[init.__module__]).get(first)
    for part in rest:
        value = getattr(value, part, None)
    if inspect.isfunction(value):  # a method that builds it
        returned = re.search(r"return\s+([\w.]+)\(", inspect.getsource(value))
        value = _named(cls, value, returned[1]) if returned else None
    return value


def _default(cls: type[Any], parameter: str) -> Any:
    """The default of a constructor's parameter, in the class nearest to `cls` that has one."""
    for each in cls.__mro__:
        init = vars(each).get("__init__")
        found = inspect.signature(init).parameters.get(parameter) if init else None
        if found is not None and found.default is not inspect.Parameter.empty:
            return found.default
    return None
