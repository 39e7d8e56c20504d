"""An engine and its reference made of numpy alone: healthy as built, with seams for faults.

The target is a synthetic residual stream that depends on every token so far; the engine batches,
prefills in chunks, caches prefixes, drafts, verifies and captures as a real one does. A fault is a
function put at one of the seams, the keyword arguments of `FakeEngine`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from matrix.contract import Bench, Examples
from matrix.engines import (
    Array,
    Counters,
    Forward,
    Generation,
    Hook,
    Identity,
    LogitRows,
    Probed,
    Request,
    Started,
    StartSpec,
    Step,
)
from matrix.engines._messages import Raised
from matrix.errors import EngineError
from matrix.reference import GreedyRun, States
from matrix.registry import Pair
from matrix.twins import Twin

Floats = NDArray[np.floating[Any]]
Planes = list[Floats]

DEPTH: Final = 8
WIDTH: Final = 32
VOCAB: Final = 64
MASK: Final = 63
BLOCK: Final = 8
ROW_IDS: Final = (1, 3, 5)
CHUNK: Final = 64
CACHE_BLOCK: Final = 32

PAIR: Final = Pair(
    key="fake",
    target="fake/target",
    speculative_model="fake/target-dflash",
    arch="FakeForCausalLM",
    num_target_layers=DEPTH,
    target_layer_ids=ROW_IDS,
    kind="synthetic",
    block_size=BLOCK,
    mask_token_id=MASK,
    final_tap="raw",
    final_tap_source="made up",
)
TWIN: Final = Twin(
    target="fake-target",
    draft="fake-draft",
    fingerprint="fake",
    arch=PAIR.arch,
    depth=DEPTH,
    width=WIDTH,
    vocab_size=VOCAB,
    mask_token_id=MASK,
    block_size=BLOCK,
    layer_ids=ROW_IDS,
    layout="nested",
    dtype="float32",
    separation=0.1,
    noise=0.0,
    notes="",
)
HOOK: Final = Hook(offered=True, body_captures=True, detail="set_aux_hidden_state_layers")
TARGET: Final = {
    "config": {"rope_theta": 1e4, "tie": False},
    "dtypes": {"float32": 9},
    "weights": "a",
}


# --- the target --------------------------------------------------------------------------------

_rng = np.random.default_rng(20)
_EMBED = _rng.normal(size=(VOCAB, WIDTH))
_TURN = np.linalg.qr(_rng.normal(size=(WIDTH, WIDTH)))[0] * 0.6
_ATTENTION = _rng.normal(size=(DEPTH, WIDTH, WIDTH)) / WIDTH**0.5
_MLP = _rng.normal(size=(DEPTH, WIDTH, WIDTH)) / WIDTH**0.5
_NORMS = _rng.uniform(0.5, 1.5, size=(DEPTH + 1, WIDTH))
_HEAD = _rng.normal(size=(WIDTH, VOCAB))


def _norm(x: Floats, weight: Floats) -> Floats:
    normed: Floats = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight
    return normed


@lru_cache(maxsize=4096)
def states(tokens: tuple[int, ...]) -> States:
    """The target's layer states on one sequence."""
    embedding = np.empty((len(tokens), WIDTH))
    before = np.zeros(WIDTH)
    for position, token in enumerate(tokens):
        before = embedding[position] = _EMBED[token] + _TURN @ before
        embedding[position] += 0.5 * np.sin(position * (1 + np.arange(WIDTH)) / 7)
    x, layers, attention, mlp = embedding, [], [], []
    for layer in range(DEPTH):
        attention.append(0.3 * np.tanh(_norm(x, _NORMS[layer]) @ _ATTENTION[layer]))
        mlp.append(0.4 * np.tanh(_norm(x + attention[-1], _NORMS[layer]) @ _MLP[layer]))
        x = x + attention[-1] + mlp[-1]
        layers.append(x)
    normed = _norm(x, _NORMS[DEPTH])
    single = np.float32
    return States(
        tokens=tokens,
        layers=np.array(layers, single),
        logits=(normed @ _HEAD).astype(single),
        embedding=embedding.astype(single),
        normed=normed.astype(single),
        attention=np.array(attention, single),
        mlp=np.array(mlp, single),
        final_normed=np.array([_norm(y, _NORMS[DEPTH]) for y in layers], single),
        next_normed=np.array([_norm(y, _NORMS[n + 1]) for n, y in enumerate(layers)], single),
    )


@lru_cache(maxsize=4096)
def following(tokens: tuple[int, ...]) -> int:
    """The target's greedy choice after a sequence."""
    return int(states(tokens).logits[-1].argmax())


def greedy(tokens: Sequence[int], count: int) -> list[int]:
    """The target's greedy continuation."""
    sequence = tuple(tokens)
    for _ in range(count):
        sequence += (following(sequence),)
    return list(sequence[len(tokens) :])


class FakeOracle:
    """What is right, computed in this process."""

    def states(self, twin: Twin, tokens: list[int], *, detail: bool = False) -> States:
        """See `Oracle`."""
        right = states(tuple(tokens))
        if detail:
            return right
        return replace(right, attention=None, mlp=None, final_normed=None, next_normed=None)

    def greedy(self, twin: Twin, prompt: list[int], max_tokens: int) -> GreedyRun:
        """See `Oracle`."""
        return GreedyRun(greedy(prompt, max_tokens), [1.0] * max_tokens)


# --- the seams ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moment:
    """One forward of one request, as a fault sees it."""

    engine: FakeEngine
    request: Request
    batch: tuple[Request, ...]
    kind: str
    tokens: tuple[int, ...]
    """Up to the last row of this forward, drafts included."""
    position: int
    """Of row 0."""
    cached: int
    step: int
    """Number of the verify step, or of the prefill's chunk."""

    @property
    def states(self) -> States:
        """Of the whole sequence."""
        return states(self.tokens)

    @property
    def at(self) -> slice:
        """The rows of this forward."""
        return slice(self.position, len(self.tokens))

    @property
    def ids(self) -> list[int]:
        """The layer ids that the engine has."""
        return self.engine.ids

    def layer(self, n: int) -> Floats:
        """A layer's output; as Python and engines do, odd ids give something too."""
        if n == DEPTH - 1 and self.engine.final == "normed":
            return self.states.normed[self.at].copy()
        if type(n) is int and 0 <= n < DEPTH:
            return self.states.layers[n, self.at].copy()
        return self.states.embedding[self.at].copy()


def strict(ids: Any) -> list[int]:
    """The healthy resolver: what it can't use it refuses, by name."""
    if not ids:
        raise EngineError("ValueError", "target_layer_ids: none are given")
    if any(type(value) is not int for value in ids):
        raise EngineError("TypeError", f"target_layer_ids: integers are wanted, not {ids}")
    if any(not 0 <= value < DEPTH for value in ids):
        raise EngineError("ValueError", f"layer ids {ids}: the target has 0..{DEPTH - 1}")
    return list(ids)


def tried(ids: Any, depth: int, last_rank: bool) -> Probed:
    """The healthy hook, on an object that was not loaded."""
    if ids is None:
        return refusing("ValueError", "layer_ids are needed for capture")
    if not last_rank:
        return refusing("NotImplementedError", "capture needs a pipeline of one rank")
    return Probed([i + 1 for i in ids], True, "FakeModel")


def refusing(type_name: str, text: str) -> Probed:
    """A hook that raises."""
    return Probed(None, True, "FakeModel", Raised(type_name, text, ""))


def _same(value: Any, moment: Moment) -> Any:
    return value


def _cut(tokens: list[int], request: Request) -> list[int]:
    tokens = tokens[: request.max_tokens]
    ends = [tokens.index(token) for token in request.stop if token in tokens]
    return tokens[: min(ends) + 1] if ends else tokens


def ids_of(runner: str, config: dict[str, Any]) -> Any:
    """The healthy resolver of either runner: it knows every place, in one order."""
    nested, eagle = config.get("dflash_config", {}), config.get("eagle_config", {})
    boundaries = config.get("eagle_aux_hidden_state_layer_ids") or nested.get("layer_ids")
    boundaries = boundaries or eagle.get("eagle_aux_hidden_state_layer_ids")
    outputs = nested.get("target_layer_ids") or config.get("target_layer_ids")
    outputs = outputs or config.get("dspark_target_layer_ids")
    return boundaries or (outputs and [n + 1 for n in outputs])


def no_word(*_: Any) -> None:
    """Nothing happens."""


@dataclass
class FakeEngine:
    """Implements `Engine`; every keyword argument is a seam, healthy by default."""

    resolve: Callable[[Any], list[int]] = strict
    """What the engine's resolver makes of ids."""
    set_ids: Callable[[list[int], list[int]], list[int]] = lambda old, new: new
    """What a hook call leaves of the ids that were set before."""
    handed: Callable[[Planes, Moment], Planes] = _same
    """The planes as the target hands them over."""
    received: Callable[[Floats | None, Moment], Floats | None] = _same
    """The planes as the draft receives them, concatenated."""
    logits: Callable[[Floats, Moment], Floats] = _same
    """The target's logits."""
    drafts: Callable[[list[int], Moment], list[int]] = _same
    """The tokens drafted in a step."""
    emitted: Callable[[list[int], Moment], list[int]] = _same
    """The tokens that one forward emits."""
    counted: Callable[[int, Moment], int] = _same
    """The accepted drafts as counted."""
    cut: Callable[[list[int], Request], list[int]] = _cut
    """Stop token and length."""
    drafting: Callable[[Moment], None] = no_word
    """Called before every draft; may raise."""
    starting: Callable[[StartSpec], None] = no_word
    """Called at start; may raise."""
    answer: Callable[[list[Generation]], list[Generation]] = lambda generations: generations
    """The whole batch's answer."""
    runner: Callable[[str, dict[str, Any]], Any] = ids_of
    """What a runner's resolver makes of a draft's config."""
    published: Callable[[Counters], Counters] = lambda counters: counters
    """The counters on the engine's page."""
    told: Callable[[Counters], Counters] = lambda counters: counters
    """The counters of one request."""
    chances: Callable[[Floats, Moment], Floats] = _same
    """The probabilities that tokens are sampled by, best first."""
    public: Callable[[Planes, Moment], Planes] = _same
    """The planes by the public way."""
    rank: Callable[[int, Planes, Moment], Planes] = lambda rank, planes, moment: planes
    """The planes that one of two ranks hands over."""
    hooked: Hook = HOOK
    tried: Callable[[Any, int, bool], Probed] = tried
    """What becomes of ids that are handed to the hook of an object that was not loaded."""
    target: dict[str, Any] = field(default_factory=lambda: TARGET)
    final: str = "raw"
    chunk: int = CHUNK
    caching: bool = True
    always_captures: bool = False
    """Whether or not there are drafts."""
    joined: bool = False
    """One array of all planes is handed over, not one a plane."""
    speculative: bool = True
    capturing: bool | None = None
    """Whether planes are captured; `None`: where there are drafts."""
    lacks: dict[str, str] = field(default_factory=dict)
    needs_gpu: dict[str, str] = field(default_factory=dict)
    """What a start with a draft lacks: it starts the target alone, and captures all the same."""
    ids: list[int] = field(default_factory=lambda: list(ROW_IDS))
    _cache: set[tuple[str | None, tuple[int, ...]]] = field(default_factory=set)
    _steps: list[Step] = field(default_factory=list)

    def identify(self) -> Identity:
        """See `Engine`."""
        settings = {"main": {"mode": "eager"}, "plain": {"mode": "eager"}}
        return Identity("transformers", "1.0", "3", None, None, "cpu", None, self.lacks, settings)

    def start(self, spec: StartSpec) -> Started:
        """See `Engine`."""
        self.starting(spec)
        self.capturing = spec.draft is not None
        self.speculative = self.capturing and not self.needs_gpu
        self.ids = self.resolve(list(ROW_IDS))
        held = [[n + 1 for n in self.ids]] * (2 if spec.settings in ("tp2", "pp2") else 1)
        needs_gpu = self.needs_gpu if spec.draft else {}
        return Started(self.target, needs_gpu=needs_gpu, boundaries=held)

    def hook(self) -> Hook:
        """See `Engine`."""
        return self.hooked

    def probe(self, ids: Any, depth: int, last_rank: bool) -> Probed:
        """See `Engine`."""
        return self.tried(ids, depth, last_rank)

    def reconfigure(self, ids: Any) -> None:
        """See `Engine`."""
        self.configure(ids)

    def configure(self, ids: Any) -> None:
        """See `Engine`."""
        self.ids = self.set_ids(self.ids, self.resolve(ids))

    def generate(self, requests: list[Request]) -> list[Generation]:
        """See `Engine`."""
        batch = tuple(requests)
        answers = [_Decoding(self, request, batch).run() for request in requests]
        self._steps += [step for answer in answers for step in answer.steps]
        return self.answer(answers)

    def counters(self) -> Counters:
        """See `Engine`."""
        return self.published(count(self._steps))

    def resolvers(self, config: dict[str, Any]) -> dict[str, Any]:
        """See `Engine`."""
        return {name: self.runner(name, config) for name in ("first", "second")}

    def stop(self) -> None:
        """See `Engine`."""
        self._cache.clear()

    def cached(self, request: Request) -> int:
        """How many tokens of a prompt are cached; the last one is always computed."""
        whole = range(0, len(request.prompt), CACHE_BLOCK)
        keys = [(request.salt, tuple(request.prompt[:end])) for end in whole]
        hits = [len(key[1]) for key in keys if self.caching and key in self._cache]
        self._cache.update(keys)
        return max(hits, default=0)


def count(steps: Sequence[Step]) -> Counters:
    """What an engine publishes of these steps."""
    drafting = [step for step in steps if step.drafted]
    return Counters(
        drafts=len(drafting),
        drafted=sum(len(step.drafted) for step in drafting),
        accepted=sum(step.accepted for step in drafting),
        accepted_at=[sum(step.accepted > at for step in drafting) for at in range(BLOCK)],
        per_step=[step.accepted for step in drafting],
    )


class _Decoding:
    """One request, from its prefill to its last verify step."""

    def __init__(self, engine: FakeEngine, request: Request, batch: tuple[Request, ...]) -> None:
        self.engine, self.request, self.batch = engine, request, batch
        self.out: list[int] = []
        self.steps: list[Step] = []
        self.forwards: list[Forward] = []
        self.rows: list[LogitRows] = []
        self.cached = engine.cached(request)
        self.published: list[Planes] = []
        self.ranks: list[list[Forward]] = [[], []]
        seed = request.sampling.seed if request.sampling else 0
        self.dice = np.random.default_rng(seed)

    def run(self) -> Generation:
        error = None
        try:
            self._prefill()
            while not self._finished():
                self._verify()
        except EngineError as raised:
            error = Raised(raised.type_name, raised.text, "")
        tokens = self.engine.cut(self.out, self.request)
        finish = "stop" if tokens and tokens[-1] in self.request.stop else "length"
        seen = (self.steps, self.forwards, self.rows)
        return Generation(
            tokens,
            finish,
            *seen,
            cached_tokens=self.cached,
            counted=self.engine.told(count(self.steps)),
            public=[array(np.concatenate(chunks)) for chunks in zip(*self.published, strict=True)],
            ranks=self.ranks,
            error=error,
        )

    def _finished(self) -> bool:
        out, request = self.out, self.request
        return len(out) >= request.max_tokens or any(token in out for token in request.stop)

    def _moment(self, kind: str, tokens: tuple[int, ...], position: int, step: int) -> Moment:
        engine, request = self.engine, self.request
        return Moment(engine, request, self.batch, kind, tokens, position, self.cached, step)

    def _prefill(self) -> None:
        prompt = tuple(self.request.prompt)
        starts = range(self.cached, len(prompt), self.engine.chunk)
        for number, start in enumerate(starts):
            end = min(start + self.engine.chunk, len(prompt))
            moment = self._moment("prefill", prompt[:end], start, number)
            chosen = self._logits(moment)
            if end == len(prompt):
                self.out += self.engine.emitted(chosen[-1:], moment)
            self._capture(moment, end - start)

    def _verify(self) -> None:
        tokens = (*self.request.prompt, *self.out)
        anchor = self._moment("verify", tokens, len(tokens) - 1, len(self.steps))
        drafted = self._drafted(anchor) if self.engine.speculative else []
        moment = replace(anchor, tokens=(*tokens, *drafted))
        chosen = self._logits(moment)
        pairs = enumerate(zip(drafted, chosen, strict=False))
        accepted = next((i for i, (a, b) in pairs if a != b), len(drafted))
        self.out += self.engine.emitted(chosen[: accepted + 1], moment)
        capturing = self.engine.capturing
        if self.engine.speculative if capturing is None else capturing:
            counted = self.engine.counted(accepted, moment)
            self.steps.append(Step(anchor.position, drafted, counted))
            self._capture(moment, accepted + 1)

    def _drafted(self, moment: Moment) -> list[int]:
        """The drafts of one step: put in, or right for as many tokens as the sequence says."""
        request, engine = self.request, self.engine
        count = BLOCK - 1 if request.drafts is None else request.drafts
        engine.drafting(moment)
        if request.inject is not None and request.inject.after:
            right = request.inject.after.get(moment.tokens[-1], [])
            return engine.drafts(right + [0] * (count - len(right)), moment)
        if request.inject is None:
            right = greedy(moment.tokens, count)
            accept, filler = sum(moment.tokens) % (count + 1), None
        else:
            inject, done = request.inject, len(self.out)
            right = inject.continuation[done : done + count]
            right += [0] * (count - len(right))
            accept, filler = inject.accept[moment.step % len(inject.accept)], inject.filler
            right = [] if accept < 0 else right
        wrong = [filler if filler not in (None, t) else (t + 1) % VOCAB for t in right]
        return engine.drafts(right[:accept] + wrong[accept:], moment)

    def _logits(self, moment: Moment) -> list[int]:
        rows = self.engine.logits(moment.states.logits[moment.at].copy(), moment)
        if self.request.logits:
            self.rows.append(LogitRows(moment.position, array(rows)))
        return [self._choice(row, moment) for row in rows]

    def _choice(self, row: Floats, moment: Moment) -> int:
        """The best token, or one of the best by chance; equal to a draft, it accepts it."""
        if self.request.sampling is None:
            return int(row.argmax())
        best = np.argsort(-row)[: self.request.sampling.top_k]
        chances = np.exp(row[best].astype(float) - float(row[best[0]]))
        chances = self.engine.chances(chances / chances.sum(), moment)
        return int(self.dice.choice(best, p=chances / chances.sum()))

    def _capture(self, moment: Moment, context: int) -> None:
        """Hand the planes over; the draft gets its context rows, unless the request is finished."""
        engine = self.engine
        if self.request.drafts == 0 and not engine.always_captures:
            return
        planes = engine.handed([moment.layer(n) for n in moment.ids], moment)
        whole = np.concatenate(planes, axis=1) if planes else None
        received = None
        if whole is not None and not self._finished():
            received = engine.received(whole[:context], moment)
        handed = [whole] if engine.joined and whole is not None else planes
        for rank, forwards in enumerate(self.ranks):
            mine = [array(plane) for plane in engine.rank(rank, planes, moment)]
            forwards.append(Forward(moment.kind, moment.position, mine))
        if moment.kind == "prefill":
            self.published.append(engine.public(planes, moment))
        self.forwards.append(
            Forward(
                kind=moment.kind,
                position=moment.position,
                handed=[array(plane) for plane in handed],
                received=None if received is None else array(received),
                received_position=moment.position,
            )
        )


def array(values: Floats, dtype: str = "float32") -> Array:
    """An array as the engine sends it."""
    single = np.ascontiguousarray(values, dtype=np.float32)
    return Array(dtype, single.shape, single.tobytes())


def bench(engine: FakeEngine | None = None, *, final_tap: str = "raw", **changes: Any) -> Bench:
    """A bench with an engine that was started; `changes` are fields of `Bench`."""
    engine = engine or FakeEngine()
    twin = changes.pop("twin", TWIN)
    engine.ids = list(twin.layer_ids)
    held = [[n + 1 for n in engine.ids]]
    started = {
        "plain": Started(TARGET),
        "main": Started(engine.target, boundaries=held),
        "tp2": Started({}, boundaries=held * 2),
    }
    pair = replace(PAIR, final_tap=final_tap)  # type: ignore[arg-type]
    values: dict[str, Any] = {"started": started, "examples": Examples(count=8), **changes}
    return Bench(pair, twin, engine, FakeOracle(), **values)
