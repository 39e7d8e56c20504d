"""A running server, over HTTP: OpenAI's completions with token ids, or SGLang's own `/generate`.

Nothing of it can be seen but what it answers, and it is taken as it runs: `start` only looks
whether it is well and serves the weights that are asked about.
"""

from __future__ import annotations

import contextlib
import platform
import re
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from matrix.engines._endpoint import Endpoint
from matrix.engines._messages import (
    Counters,
    Forward,
    Generation,
    Hook,
    Identity,
    Probed,
    Raised,
    Request,
    Started,
    StartSpec,
    Step,
)
from matrix.engines._server_answers import Completion, Generated, Model, Models, Version, published
from matrix.engines._server_http import Link
from matrix.engines._server_planes import Capture, forwards
from matrix.errors import AdapterError, EngineError, HarnessError, MatrixError, WorkerGone

__all__ = ["ServerEngine"]

T = TypeVar("T")

_INSIDE: Final = "a server shows no more of itself than it answers"
LACKS: Final = {
    "settings": "a server is taken as it runs",
    **dict.fromkeys(("hook", "probe", "logits", "steps", "runners", "ranks"), _INSIDE),
    **dict.fromkeys(("configure", "reconfigure", "drafts"), "nothing is changed on a server"),
    "chunk": "an answer holds the planes of a prompt's last chunk alone",
    "inject": "a server makes its own drafts",
    "sample": "a server is asked for its best tokens alone",
    "public": "planes in an answer are the public way already, which AUX-VALUE judges",
}
"""What no server gives, with the reason."""
LAG: Final = 3.0
"""Seconds that a metrics page may lag behind the answers."""
INFO: Final = {"vllm": ("/version",), "sglang": ("/server_info", "/get_server_info")}
"""Engine, as `/v1/models` names it -> where it says its version, the newer page first."""


class ServerEngine:
    """The server that the worker's environment names; implements `Engine`."""

    def __init__(self) -> None:
        self.link = Link(Endpoint.from_env())
        self.engine = "server"
        self.model: Model | None = None
        self.dtype = ""
        self.captures = False
        """Whether its answers hold planes."""
        self.answered = 0
        """Requests that it answered since the last start."""
        self._base: Counters | None = None
        """Its counters then."""

    def identify(self) -> Identity:
        """Engine and version as the server says them; the start says what is wrong with it."""
        version = "unknown"
        with contextlib.suppress(MatrixError):
            self.engine = _engine(self._models())
            version = _version(self._server_info(Version, Version("")).version, self.engine)
        at = self.link.at
        means = {"engine": self.engine, "url": at.url, "metrics_url": at.page}
        return Identity(
            name=self.engine,
            version=version,
            python=platform.python_version(),
            transformers=None,
            torch=None,
            device="unknown",
            driver=None,
            lacks=dict(LACKS),
            settings={"main": means},
        )

    def start(self, spec: StartSpec) -> Started:
        """Look whether it is well, and serves the target.

        Raises:
            HarnessError: it serves another model.
            WorkerGone: it isn't well, or not there.
        """
        self.link.healthy()
        models = self._models()
        self.engine = _engine(models)
        self.model, lacks = _asked_about(models, spec)
        lacks |= self._planes(spec, lacks)
        try:
            self._base = self._page()
        except (EngineError, HarnessError, WorkerGone) as error:
            if self.link.at.metrics_url:
                raise HarnessError(f"--metrics-url: {error}") from error
            self._base, lacks["counters"] = None, str(error)
        self.answered = 0
        return Started(target={}, lacks=lacks)

    def _planes(self, spec: StartSpec, lacks: dict[str, str]) -> dict[str, str]:
        """What it lacks of planes and draft; of weights that the reference has not, planes too."""
        self.dtype, self.captures = spec.dtype, False
        if self.engine != "sglang":
            return {"planes": _INSIDE}
        found = self._server_info(Capture, Capture()).lacks(spec)
        if "reference" in lacks:
            found["planes"] = lacks["reference"]
        self.captures = "planes" not in found
        return found

    def hook(self) -> Hook:
        """It can't be seen."""
        raise AdapterError(_INSIDE)

    def probe(self, ids: Any, depth: int, last_rank: bool) -> Probed:
        """It can't be tried."""
        raise AdapterError(_INSIDE)

    def configure(self, ids: Any) -> None:
        """It can't be changed."""
        raise AdapterError(_INSIDE)

    def reconfigure(self, ids: Any) -> None:
        """It can't be changed."""
        raise AdapterError(_INSIDE)

    def resolvers(self, config: dict[str, Any]) -> dict[str, Any]:
        """They can't be asked."""
        raise AdapterError(_INSIDE)

    def generate(self, requests: list[Request]) -> list[Generation]:
        """Send all requests at once; each has its own answer or its own error."""
        with ThreadPoolExecutor(max(1, len(requests))) as pool:
            answers = list(pool.map(self._one, requests))
        self.answered += sum(answer.error is None for answer in answers)
        return answers

    def counters(self) -> Counters:
        """From the metrics page, once it has caught up with what was answered."""
        until = time.monotonic() + LAG
        while not self._caught_up(page := self._page()) and time.monotonic() < until:
            time.sleep(0.1)
        return page

    def stop(self) -> None:
        """It goes on: it isn't ours."""

    def _caught_up(self, page: Counters) -> bool:
        base = self._base
        if base is None or page.requests is None or base.requests is None:
            return True
        return page.requests - base.requests >= self.answered

    def _models(self) -> list[Model]:
        return self.link.get("/v1/models", Models).data

    def _server_info(self, kind: type[T], otherwise: T) -> T:
        """What it says of itself, by the newer page or the older one."""
        for path in INFO.get(self.engine, ()):
            with contextlib.suppress(EngineError):
                return self.link.get(path, kind)
        return otherwise

    def _page(self) -> Counters:
        """What the metrics page counts."""
        url = self.link.at.page
        if (counted := published(self.link.page(url))) is None:
            raise EngineError("BadAnswer", f"GET {url}: no metrics page that counts drafts")
        return counted

    def _one(self, request: Request) -> Generation:
        ask = self._sglang if self.engine == "sglang" else self._openai
        try:
            answer = ask(request)
            handed, steps = self._handed(request, answer)
        except EngineError as error:
            if error.type_name.startswith("HTTP 5"):
                self._still_there(error)
            raised = Raised(error.type_name, error.text, error.trace)
            return Generation([], "length", [], [], error=raised)
        if answer.tokens is None:
            want = "want vLLM's `return_token_ids`, or SGLang's /generate"
            raise HarnessError(f"{self.link.at.url} gives no token ids back: {want}")
        return Generation(
            tokens=answer.tokens,
            finish=answer.finish,
            steps=steps,
            forwards=handed,
            cached_tokens=answer.cached,
            counted=answer.counted,
        )

    def _still_there(self, error: EngineError) -> None:
        """Or it is dying, and the error was its last word."""
        try:
            self.link.healthy()
        except WorkerGone as gone:
            raise WorkerGone(gone.outcome, f"{error}; then {gone}") from error

    def _handed(
        self, request: Request, answer: Completion | Generated
    ) -> tuple[list[Forward], list[Step]]:
        """The planes in an answer, where they were asked for."""
        if isinstance(answer, Completion) or not (self.captures and request.planes):
            return [], []
        return forwards(answer.meta_info.hidden_states, answer.cached, self.dtype)

    def _openai(self, request: Request) -> Completion:
        assert self.model is not None, "started"
        body = {
            "model": self.model.id,
            "prompt": request.prompt,
            "max_tokens": request.max_tokens,
            "temperature": 0,
            "stop_token_ids": request.stop,
            "ignore_eos": True,
            "return_token_ids": True,
            "cache_salt": request.salt or secrets.token_hex(8),
        }
        return self.link.post("/v1/completions", body, Completion)

    def _sglang(self, request: Request) -> Generated:
        body = {
            "input_ids": request.prompt,
            "sampling_params": {
                "temperature": 0,
                "max_new_tokens": request.max_tokens,
                "stop_token_ids": request.stop,
                "ignore_eos": True,
                "no_stop_trim": True,
            },
            "cache_salt": request.salt or secrets.token_hex(8),
            "return_hidden_states": self.captures and request.planes,
        }
        return self.link.post("/generate", body, Generated)


def _version(said: str, engine: str) -> str:
    """With the engine behind it, so that a version can still be compared."""
    if not re.fullmatch(r"[\w.+!-]{1,60}", said):
        return "unknown"
    return f"{said}{'.' if '+' in said else '+'}{engine}"


def _engine(models: list[Model]) -> str:
    named = {model.owned_by for model in models if model.owned_by in INFO}
    return str(named.pop()) if len(named) == 1 else "server"


def _asked_about(models: list[Model], spec: StartSpec) -> tuple[Model, dict[str, str]]:
    """The model among those served, and what can't be had of it."""
    weights = (spec.target, spec.served_as)
    for model in models:
        if model.id in weights or model.root in weights:
            return model, {}
    for model in models:
        if spec.hub_id in (model.id, model.root):
            return model, {"reference": f"the reference has no weights of {spec.hub_id}"}
    served = ", ".join(repr(model.id[:80]) for model in models[:5]) or "nothing"
    want = f"want {spec.served_as!r}; `dflash-matrix canary serve-args` prints how to start it"
    raise HarnessError(f"another model is served: {served}; {want}")
