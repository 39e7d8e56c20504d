"""SGLang, in one process: its scheduler and model runner live in the worker.

Without a GPU SGLang refuses DFLASH itself. The target is started in the public capture mode then,
which loads no draft: planes come from prefill, decode and batches, and are read where the target's
forward hands them over and where the draft's worker would read them. Ids go through the resolver
of the draft's config first, at start and ever after.
"""

from __future__ import annotations

import gc
import importlib.metadata
import itertools
from typing import Any

import torch

# Before SGLang, which reads its environment when it is imported.
from matrix.engines._standins._place import IN_PLACE  # isort: split

from matrix.engines._messages import (
    Counters,
    Generation,
    Hook,
    Identity,
    Probed,
    Raised,
    Request,
    Started,
    StartSpec,
)
from matrix.engines._rpc import engine_raised
from matrix.engines._sglang_classes import Classes
from matrix.engines._sglang_core import Core, Seen, make_known, shut_down
from matrix.engines._sglang_ids import Ids, clear
from matrix.engines._sglang_start import SETTINGS, arguments, resolved, speculative
from matrix.engines._tensors import describe, versions
from matrix.errors import AdapterError

__all__ = ["SglangEngine"]

_LACKS = {
    "inject": "nothing is put in the draft's place yet",
    "drafts": "the number of drafts per step is fixed at start",
    "sample": "only greedy requests are made",
    "counters": "its counters are not read yet",
    "runners": "there is one runner",
    "public": "the main start is the public capture mode already",
    "ranks": "it is started on one rank",
}
_FIXED = "the draft's first projection takes as many planes as it was started with"
_REFUSED_HERE = "speculative decoding is not supported by"
"""What SGLang says of a method that it refuses on the whole platform."""


class SglangEngine:
    """One SGLang engine at a time; implements `Engine`."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.core: Core | None = None
        self.ids: Ids | None = None
        self.classes = Classes(None)
        self._number = itertools.count()

    def identify(self) -> Identity:
        """Versions, and what the settings mean here."""
        return Identity(
            name="sglang",
            version=importlib.metadata.version("sglang"),
            lacks=_LACKS,
            settings=SETTINGS,
            standins=IN_PLACE,
            **versions(),
        )

    def start(self, spec: StartSpec) -> Started:
        """Start the pair; where the platform refuses the draft, capture without it."""
        torch.manual_seed(0)
        options = arguments(spec)
        self.classes.arch = spec.arch
        needs_gpu: dict[str, str] = {}
        lacks: dict[str, str] = {}
        if spec.draft is None:
            self.core = Core(resolved(options), capturing=False)
        else:
            refusal = _refusal(options | speculative(spec))
            if refusal is None:
                self.core = Core(resolved(options | speculative(spec)), capturing=True)
                lacks = dict.fromkeys(("configure", "reconfigure"), _FIXED)
            else:
                needs_gpu = {"draft": refusal}
                self._capture(options, spec.draft)
        assert self.core is not None, "a start that was refused has raised"
        runner = self.core.runner
        target = describe(runner.model_config.hf_config, runner.model)
        return Started(target, lacks=lacks, needs_gpu=needs_gpu)

    def _capture(self, options: dict[str, Any], draft: str) -> None:
        """Start in the public capture mode, on the ids that the draft's resolver gives."""
        plain = resolved(options)
        make_known(plain)
        self.ids = Ids(plain, draft)
        capture = {
            "enable_return_aux_hidden_states": True,
            "return_aux_hidden_state_layer_ids": self.ids.resolve(),
            "speculative_algorithm": "DFLASH",
        }
        self.core = Core(resolved(options | capture), capturing=True)

    def hook(self) -> Hook:
        """The capture hook of the target's class."""
        return self.classes.hook()

    def probe(self, ids: Any, depth: int, last_rank: bool) -> Probed:
        """The hook of the target's class, on an object that was not loaded."""
        return self.classes.probe(ids, depth, last_rank)

    def configure(self, ids: Any) -> None:
        """Nothing of earlier ids is left behind: some bodies mark layers and never unmark them."""
        assert self.ids is not None, "started with a draft"
        assert self.core is not None, "started"
        self.ids.write(ids)
        self.ids.resolve()
        clear(self.core.runner.model)
        self._set()

    def reconfigure(self, ids: Any) -> None:
        """A second hook call, on top of what the first one left."""
        assert self.ids is not None, "started with a draft"
        self.ids.write(ids)
        self._set()

    def _set(self) -> None:
        assert self.core is not None, "started"
        assert self.ids is not None, "started with a draft"
        # Counts planes against the ids of the capture mode's own argument; a draft has no such.
        self.core.processor.expected_aux_hidden_states = None
        self.ids.set(self.core.runner.model)

    def generate(self, requests: list[Request]) -> list[Generation]:
        """Queue all requests, then step until they are done or the engine raises."""
        core = self.core
        assert core is not None, "started"
        error: Raised | None = None
        seen: list[Seen] = []
        try:
            for request in requests:
                seen.append(core.add(str(next(self._number)), request))
            while core.step():
                pass
        except Exception as failure:
            error = engine_raised(failure)
            core.reset()
        core.forget()
        answers = [_answer(each, error) for each in seen]
        return answers + [
            Generation([], "length", [], [], error=error) for _ in requests[len(seen) :]
        ]

    def counters(self) -> Counters:
        """Not read yet."""
        raise AdapterError(_LACKS["counters"])

    def resolvers(self, config: dict[str, Any]) -> dict[str, Any]:
        """There is one runner, so there is nothing to compare."""
        raise AdapterError(_LACKS["runners"])

    def stop(self) -> None:
        """Forget the scheduler, so that another may start in this process."""
        self.core = self.ids = None
        gc.collect()
        shut_down()


def _refusal(options: dict[str, Any]) -> str | None:
    """SGLang's own sentence, where it refuses DFLASH on this platform."""
    try:
        resolved(options)
    except ValueError as error:
        if _REFUSED_HERE in str(error):
            return str(error)
        raise
    return None


def _answer(seen: Seen, error: Raised | None) -> Generation:
    tokens = list(seen.req.output_ids)
    done = seen.req.finished()
    stopped = bool(tokens) and tokens[-1] in seen.request.stop
    return Generation(
        tokens=tokens,
        finish="stop" if stopped else "length",
        steps=seen.steps,
        forwards=seen.forwards,
        logits=seen.logits,
        cached_tokens=seen.req.cached_tokens or 0,
        error=None if done else error,
    )
