"""SGLang's model classes, looked at without a start: the live engine's, or an uninstalled one's."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

# Before SGLang, which reads its environment when it is imported.
from matrix.engines._standins._place import IN_PLACE  # isort: split

from sglang.srt.models.registry import ModelRegistry
from sglang.srt.speculative.dflash_utils import parse_dflash_draft_config

from matrix.engines._classes import ClassEngine
from matrix.engines._messages import Hook, Probed
from matrix.engines._rpc import engine_raised
from matrix.engines._sglang_probe import made_up, reached, standin
from matrix.errors import AdapterError, EngineError
from matrix.scan import Architecture, Source, installed, open_source, scan

__all__ = ["Classes", "uninstalled"]

_HOOK: Final = "set_dflash_layers_to_capture"


class Classes:
    """What can be said of the class registered for `arch`; `folder` holds SGLang's package."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.arch = ""
        self._read: dict[str, Architecture] = {}

    @property
    def cls(self) -> type[Any]:
        """The class that SGLang would load."""
        found: type[Any] | None = ModelRegistry.models.get(self.arch)
        if found is None:
            raise EngineError("ValueError", f"{self.arch} is not in SGLang's model registry")
        return found

    @property
    def source(self) -> Architecture:
        """What its source says: which body captures, and where."""
        if self.arch not in self._read:
            found: AbstractContextManager[Source] = (
                open_source(self.folder, "sglang") if self.folder else installed("sglang")
            )
            with found as source:
                said = scan(source, self.arch).architectures
            if not said:
                raise AdapterError(f"adapter: the scan of SGLang finds no {self.arch}")
            self._read[self.arch] = said[0]
        return self._read[self.arch]

    def hook(self) -> Hook:
        """The hook as SGLang's runner asks for it, by `hasattr`."""
        offered = hasattr(self.cls, _HOOK)
        captures = self.source.captures
        known = captures.before is not None or captures.after is not None
        detail = (
            f"hasattr({self.cls.__name__}, {_HOOK!r}) is {offered}; "
            f"{self.source.body or 'no body'} captures"
            if captures.before or captures.after
            else f"hasattr({self.cls.__name__}, {_HOOK!r}) is {offered}; no body captures"
        )
        return Hook(offered, bool(captures.before or captures.after) if known else None, detail)

    def probe(self, ids: Any, depth: int, last_rank: bool) -> Probed:
        """Hand ids to the class's hook, past the draft's resolver as at start; `None` as it is."""
        enters = self.source.captures.enters
        if moved := [why for why in self.source.unknown if why.startswith("shift:")]:
            enters = None if "runner" in moved[0] else enters
        made = standin(self.cls, depth, last_rank=last_rank)
        body = self.source.body or "an unknown body"
        try:
            given = None if ids is None else _resolved(ids, depth)
            getattr(made, _HOOK)(given)
        except Exception as error:
            if made_up(made, error):
                return Probed(None, enters, body, undecided=f"the stand-in's {error}")
            return Probed(reached(made), enters, body, engine_raised(error))
        return Probed(reached(made), enters, body)


def _resolved(ids: Any, depth: int) -> Any:
    config = {"num_hidden_layers": 1, "dflash_config": {"target_layer_ids": ids}}
    draft = parse_dflash_draft_config(draft_hf_config=config)
    return draft.resolve_target_layer_ids(target_num_layers=depth, draft_num_layers=1)


def uninstalled() -> ClassEngine:
    """The classes of `--engine-path`: their hooks, which can be tried too."""
    classes = Classes(Path(os.environ["MATRIX_ENGINE_PATH"]))
    return ClassEngine("sglang", classes, ("hook", "probe"), IN_PLACE)
