"""A server on this machine: the fake engine behind vLLM's or SGLang's pages, or any answer at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import running  # noqa: F401 - makes the fake engine importable
from fake_engine import PAIR, TWIN, FakeEngine

from matrix.engines import Counters, Generation, Request, StartSpec
from matrix.twins import served_as

Handler = BaseHTTPRequestHandler
NAME = served_as(PAIR, TWIN)

SPEC = StartSpec(
    arch=PAIR.arch,
    target="/nowhere/target",
    draft="/nowhere/draft",
    settings="main",
    method="dflash",
    dtype="float32",
    device="cuda",
    drafts=TWIN.drafts,
    max_model_len=1024,
    served_as=NAME,
    hub_id=PAIR.target,
    layer_ids=list(TWIN.layer_ids),
)


@dataclass
class Server:
    """What is served; a test puts its own answers over the healthy ones."""

    kind: str = "vllm"
    details: bool = True
    """Whether an answer says what was counted for its request."""
    captures: list[int] | None = None
    """Layer ids, where it was started to give planes."""
    chunks: int = 2048
    """Tokens of a prefill's chunk, as it says."""
    model: str = NAME
    engine: FakeEngine = field(default_factory=FakeEngine)
    answers: dict[str, Callable[[Handler], None]] = field(default_factory=dict)
    """Path -> a function that answers for itself."""
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    """Path, headers and JSON of every request."""
    counted: Counters = field(default_factory=lambda: Counters(0, 0, 0, [], None, 0, 0))
    """What the page shows."""
    url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """As a server is: started with its draft, or to give planes."""
        if self.captures is not None:
            self.engine.needs_gpu, self.engine.chunk = {"draft": "captures without"}, 4096
        self.engine.start(SPEC)

    def paths(self) -> list[str]:
        return [path for path, _, _ in self.asked]

    def healthy(self, path: str, asked: Any) -> Any:
        """The healthy answer, as text or as what becomes JSON; `None` where there is no page."""
        served = [{"id": self.model, "owned_by": self.kind}]
        pages: dict[str, Callable[[], Any]] = {
            "/health": lambda: "",
            "/v1/models": lambda: {"data": served},
            **(self._vllm(asked) if self.kind != "sglang" else self._sglang(asked)),
        }
        return pages[path]() if path in pages else None

    def _vllm(self, asked: Any) -> dict[str, Callable[[], Any]]:
        return {
            "/version": lambda: {"version": "0.32.0"},
            "/metrics": self._page,
            "/v1/completions": lambda: self._completion(asked),
        }

    def _sglang(self, asked: Any) -> dict[str, Callable[[], Any]]:
        return {
            "/server_info": lambda: {
                "version": "0.5.23",
                "enable_return_aux_hidden_states": self.captures is not None,
                "return_aux_hidden_state_layer_ids": self.captures,
                "chunked_prefill_size": self.chunks,
            },
            "/generate": lambda: self._generated(asked),
        }

    def generate(self, prompt: list[int], most: int, stop: list[int]) -> Generation:
        with self._lock:
            answer = self.engine.generate([Request(prompt, most, stop)])[0]
            assert answer.counted is not None
            self.counted = _sum(self.counted, answer.counted, len(answer.tokens))
        return answer

    def _completion(self, asked: Any) -> dict[str, Any]:
        answer = self.generate(asked["prompt"], asked["max_tokens"], asked["stop_token_ids"])
        steps = [step.accepted for step in answer.steps]
        said = {
            "acceptance_histogram": _histogram(steps),
            "num_draft_tokens": sum(len(step.drafted) for step in answer.steps),
            "per_step_accepted": steps or None,
        }
        choice = {
            "index": 0,
            "text": "",
            "finish_reason": answer.finish,
            "token_ids": answer.tokens,
        }
        metrics = {"speculative_decoding": said} if self.details else None
        usage = {"prompt_tokens_details": {"cached_tokens": answer.cached_tokens}}
        return {"choices": [choice], "usage": usage, "metrics": metrics}

    def _generated(self, asked: Any) -> dict[str, Any]:
        how = asked["sampling_params"]
        answer = self.generate(asked["input_ids"], how["max_new_tokens"], how["stop_token_ids"])
        said = {
            "finish_reason": {"type": answer.finish},
            "cached_tokens": answer.cached_tokens,
            "spec_num_proposed_drafts": sum(len(step.drafted) for step in answer.steps),
            "spec_correct_drafts_histogram": _histogram([s.accepted for s in answer.steps]),
        }
        if asked["return_hidden_states"]:
            said["hidden_states"] = _states(answer)
        return {"output_ids": answer.tokens, "meta_info": said}

    def _page(self) -> str:
        now = self.counted
        rows = {
            "spec_decode_num_drafts": now.drafts,
            "spec_decode_num_draft_tokens": now.drafted,
            "spec_decode_num_accepted_tokens": now.accepted,
            "request_success": now.requests,
            "generation_tokens": now.tokens,
        }
        lines = [
            f'# TYPE vllm:{k}_total counter\nvllm:{k}_total{{e="0"}} {v}.0' for k, v in rows.items()
        ]
        at = "vllm:spec_decode_num_accepted_tokens_per_pos"
        lines.append(f"# TYPE {at}_total counter")
        lines += [f'{at}_total{{position="{i}"}} {n}.0' for i, n in enumerate(now.accepted_at)]
        return "\n".join(lines) + "\n"


def _states(answer: Generation) -> list[Any]:
    """A table of rows for the prefill, then one row a step."""
    rows = [
        np.concatenate([plane.numpy() for plane in each.handed], axis=1).tolist()
        for each in answer.forwards
    ]
    return [each if at == 0 else each[0] for at, each in enumerate(rows)]


def _histogram(steps: list[int]) -> list[int]:
    return [steps.count(accepted) for accepted in range(TWIN.drafts + 1)]


def _sum(one: Counters, two: Counters, tokens: int) -> Counters:
    longest = max(len(one.accepted_at), len(two.accepted_at))
    padded = [[*each.accepted_at, *[0] * longest][:longest] for each in (one, two)]
    return Counters(
        one.drafts + two.drafts,
        one.drafted + two.drafted,
        one.accepted + two.accepted,
        [a + b for a, b in zip(*padded, strict=True)],
        None,
        (one.requests or 0) + 1,
        (one.tokens or 0) + tokens,
    )


def reply(handler: Handler, status: int, body: bytes | str = b"", **headers: str) -> None:
    """Send one answer; a header that is given replaces ours."""
    data = body.encode() if isinstance(body, str) else body
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(data)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    with suppress(OSError):  # a client that has read enough hangs up
        handler.wfile.write(data)


def saying(status: int, body: bytes | str = b"", **headers: str) -> Callable[[Handler], None]:
    """A function that gives one answer."""
    return lambda handler: reply(handler, status, body, **headers)


@contextmanager
def serving(**options: Any) -> Iterator[Server]:
    """Serve on a free port of the loopback interface."""
    server = Server(**options)

    class Answers(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            asked = json.loads(self.rfile.read(length)) if length else None
            server.asked.append((self.path, dict(self.headers), asked))
            if own := server.answers.get(self.path):
                own(self)
                return
            said = server.healthy(self.path, asked)
            body = said if isinstance(said, str) else json.dumps(said)
            reply(self, 404 if said is None else 200, body)

        do_POST = do_GET  # noqa: N815 - the name is http.server's

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    listening.daemon_threads = True
    server.url = f"http://127.0.0.1:{listening.server_address[1]}"
    thread = threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()


def dying(server: Server, after: int) -> Callable[[Handler], None]:
    """Answers `after` requests, then nobody is there any more: not even for a new connection."""
    left = [after]

    def answer(handler: Handler) -> None:
        left[0] -= 1
        if left[0] >= 0:
            asked = server.asked[-1][2]
            reply(handler, 200, json.dumps(server.healthy(handler.path, asked)))
            return
        handler.server.shutdown()
        handler.server.server_close()
        handler.close_connection = True

    return answer
