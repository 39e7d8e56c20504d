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

__all__ = ["reached", "standin"]

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


def _inner_class(cls: type[Any], name: str) -> type[Any] | None:
    """The module class that the nearest constructor builds for attribute `name`."""
    for each in cls.__mro__:
        init = vars(each).get("__init__")
        if not inspect.isfunction(init):
            continue
        built = re.search(_BUILT.format(name=name), inspect.getsource(init))
        if built is None:
            continue
        found = _named(init, built[1])
        return found if inspect.isclass(found) and issubclass(found, nn.Module) else None
    return None


def _named(init: Any, word: str) -> Any:
    """What a word in a constructor means: a parameter's default, or a name of its module."""
    parameter = inspect.signature(init).parameters.get(word)
    if parameter is not None:
        return parameter.default
    value: Any = sys.modules[init.__module__]
    for part in word.split("."):
        value = getattr(value, part, None)
    return value
