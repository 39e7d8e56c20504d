"""The values that cross between driver and worker; msgpack, never pickle.

Shapes are in tokens (`T`), width (`H`, a plane's) and vocabulary (`V`). Token ids are plain ints.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Array",
    "Call",
    "Counters",
    "Failed",
    "Forward",
    "Generation",
    "Gone",
    "Hook",
    "Identity",
    "Inject",
    "LogitRows",
    "Probed",
    "Raised",
    "Reply",
    "Request",
    "Sampling",
    "StartSpec",
    "Started",
    "Step",
]

FloatArray = NDArray[np.floating[Any]]


class Array(msgspec.Struct, frozen=True):
    """A tensor as bytes.

    `dtype` is what the engine held (`bfloat16`, `float8_e4m3fn`, ...); `data` is float32 (float64
    stays), little-endian, C order, into which every narrower float widens without loss.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def numpy(self) -> FloatArray:
        """The values, as float32 or float64, read-only."""
        if self.dtype == "float64":
            return np.frombuffer(self.data, dtype=np.float64).reshape(self.shape)
        return np.frombuffer(self.data, dtype=np.float32).reshape(self.shape)


class Inject(msgspec.Struct, frozen=True):
    """Drafts to put in the draft's place.

    `continuation` is the target's own greedy continuation of the prompt; in step i the first
    `accept[i % len(accept)]` drafts continue it rightly and the others don't. `filler`, when given,
    is the token of the wrong drafts; else it is a token that differs from the right one.
    `-1` in `accept` asks for a step with no drafts, where the engine has such steps.

    Where the output is sampled nobody knows its continuation: there `after` says which drafts
    follow which token, and nothing else counts.
    """

    continuation: list[int] = []
    accept: list[int] = []
    filler: int | None = None
    after: dict[int, list[int]] = {}


class Sampling(msgspec.Struct, frozen=True):
    """Sample instead of taking the best token: from the `top_k` best, at temperature 1."""

    seed: int | None
    """`None`: the engine's own generator, which a start seeds."""
    top_k: int
    top_p: float = 1.0


class Request(msgspec.Struct, frozen=True):
    """One prompt to generate from, greedily unless `sampling` is given."""

    prompt: list[int]
    max_tokens: int
    stop: list[int] = []
    drafts: int | None = None
    """Drafts per step; `None`: as started."""
    inject: Inject | None = None
    logits: bool = False
    """Return the target's logits too."""
    salt: str | None = None
    """Cache salt: requests with different salts share no cached prefix; `None`: with no other."""
    sampling: Sampling | None = None
    planes: bool = True
    """Return the planes too."""


class Step(msgspec.Struct, frozen=True):
    """One verify step.

    `position` is the sequence position of the anchor token (the last token already emitted),
    `drafted` the tokens that were proposed after it, `accepted` how many of them the engine's own
    verification took, before any stop or length cut.
    """

    position: int
    drafted: list[int]
    accepted: int


class Forward(msgspec.Struct, frozen=True):
    """What one target forward handed over, and what the draft received of it.

    `handed` are the planes as the target hands them over: either one array a plane, `[T, H]`, or
    one array of concatenated planes, `[T, n * H]`; row 0 is sequence position `position`.
    `received` is the draft's input, `[T', n * H]`, row 0 at `received_position`; `None` when the
    draft was not called afterwards. `cached` positions before `position` were not computed.
    """

    kind: str
    """`prefill` or `verify`."""
    position: int
    handed: list[Array]
    received: Array | None = None
    received_position: int = 0


class LogitRows(msgspec.Struct, frozen=True):
    """Target logits `[T, V]`; row 0 predicts the token at `position + 1`."""

    position: int
    rows: Array


class Raised(msgspec.Struct, frozen=True, tag="raised"):
    """Worker to driver: the engine raised."""

    type_name: str
    text: str
    trace: str
    platform: bool = False
    """The engine refuses the method on this whole platform."""


class Counters(msgspec.Struct, frozen=True):
    """What an engine publishes of its speculation."""

    drafts: int
    """Verify steps that had drafts."""
    drafted: int
    """Tokens drafted."""
    accepted: int
    """Drafted tokens accepted, before any stop or length cut."""
    accepted_at: list[int]
    """Of them at each draft position."""
    per_step: list[int] | None = None
    """Accepted in each step that had drafts; in the steps' order, or ascending where the engine
    gives a histogram; `None` where it gives sums alone."""
    requests: int | None = None
    """Requests finished, and below tokens emitted, where the engine says so: there the traffic of
    others shows."""
    tokens: int | None = None


class Generation(msgspec.Struct, frozen=True):
    """The answer to one `Request`."""

    tokens: list[int]
    finish: str
    """`length` or `stop`."""
    steps: list[Step]
    forwards: list[Forward]
    logits: list[LogitRows] = []
    cached_tokens: int = 0
    counted: Counters | None = None
    """What the engine itself counted for this request, where it says so."""
    public: list[Array] = []
    """The prompt's planes by the engine's public way, in a start that has it."""
    ranks: list[list[Forward]] = []
    """What every rank handed over, in a start of several; the first is in `forwards` too."""
    error: Raised | None = None
    """The engine raised on the way; what was seen until then stands above."""


class StartSpec(msgspec.Struct, frozen=True):
    """What to start. `draft` is `None` for a plain start, with speculation off."""

    arch: str
    """The target's architecture."""
    target: str
    draft: str | None
    settings: str
    method: str
    dtype: str
    device: str
    drafts: int
    """Drafts per step."""
    max_model_len: int
    trust_remote_code: bool = False
    args: dict[str, Any] = {}
    """The row's own arguments for this engine."""
    served_as: str = ""
    """The name by which a server is to serve the target's very weights."""
    hub_id: str = ""
    """The row's real target, whose architecture this one has."""
    layer_ids: list[int] = []
    """The row's layer ids, for comparison alone: an engine resolves its own."""


class Started(msgspec.Struct, frozen=True):
    """What a start found."""

    target: dict[str, Any]
    """The loaded target as data: its config, and dtypes and checksum of its parameters."""
    most_drafts: int | None = None
    """Most drafts per step that a running engine can be asked for; `None`: any number."""
    lacks: dict[str, str] = {}
    """Capabilities that this start can't have, with the reason."""
    boundaries: list[list[int | float]] = []
    """What each rank's body holds to capture, in the engine's own convention; vLLM takes 1.5 too."""
    needs_gpu: dict[str, str] = {}
    """Capabilities that this start lacks for want of a GPU, each with the engine's own sentence."""


class Hook(msgspec.Struct, frozen=True):
    """Class-level facts on the capture hook."""

    offered: bool
    body_captures: bool | None
    detail: str


class Probed(msgspec.Struct, frozen=True):
    """What a model's hook did with layer ids, on an object of its class that was not loaded."""

    reached: list[int] | None
    """What the body holds to capture afterwards, in the engine's own convention; `None`: nothing."""
    enters: bool | None
    """Whether the body captures, for a number b, what enters layer b (else what leaves it)."""
    body: str
    """The class whose layers capture."""
    refused: Raised | None = None
    """What resolver or hook raised."""
    undecided: str = ""
    """Why nothing can be said: what the hook needs of a loaded model."""


class Identity(msgspec.Struct, frozen=True):
    """Who is tested. `lacks` maps a capability that this engine can't have to the reason."""

    name: str
    version: str
    python: str
    transformers: str | None
    torch: str | None
    device: str
    driver: str | None
    lacks: dict[str, str]
    settings: dict[str, dict[str, Any]]
    """What each settings name means here: runner, eager or graph, KV dtype, caching, ..."""
    standins: list[str] = []


class Call(msgspec.Struct, frozen=True):
    """Driver to worker: call `method` with `args`."""

    method: str
    args: list[msgspec.Raw]


class Reply(msgspec.Struct, frozen=True, tag="ok"):
    """Worker to driver: what the call returned."""

    value: msgspec.Raw


class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """Worker to driver: what the adapter speaks to ended or hung; see `errors.WorkerGone`."""

    outcome: str
    how: str


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """Worker to driver: the harness failed, not the engine."""

    type_name: str
    """A class of `matrix.errors`."""
    text: str
    trace: str
