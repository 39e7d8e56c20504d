"""What a running vLLM hands over, takes in and accepts, seen from inside its core.

Wrapped on the live objects, never on classes, so that whatever a class was made to do is seen:

    runner.execute_model        which requests are in the step, and the logits
    runner._model_forward       the planes at the hand-over
    drafter.propose             which rows are whose; drafts may be put in
    drafter's fc                the planes as the draft takes them in
    precompute_and_store_...    at which positions they enter the draft's context
    build_per_group_...         how much of its context the draft then looks at
    scheduler.update_from_output  what was accepted
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from matrix.engines._drafts import Forced
from matrix.engines._messages import Array, Forward, LogitRows, Request, Step
from matrix.engines._tensors import array

__all__ = ["Seen", "Watch"]


@dataclass
class Taken:
    """What one forward handed over for one request; the draft's side is filled in later."""

    kind: str
    position: int
    handed: list[Array]
    received: Array | None = None
    received_position: int = 0

    def forward(self) -> Forward:
        """As a message."""
        return Forward(self.kind, self.position, self.handed, self.received, self.received_position)


@dataclass
class Seen:
    """Everything that was seen of one request."""

    request: Request
    forced: Forced | None = None
    forwards: list[Taken] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    logits: list[LogitRows] = field(default_factory=list)


@dataclass(frozen=True)
class Segment:
    """One request's rows of a step."""

    request: str
    """vLLM's own id of it."""
    first: int
    rows: int
    position: int
    drafts: int

    @property
    def window(self) -> slice:
        """Its rows."""
        return slice(self.first, self.first + self.rows)


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Put `around` before a bound method of one object; it gets the original first."""
    setattr(owner, name, partial(around, getattr(owner, name)))


class Watch:
    """Wraps one engine's runner, drafter and scheduler, for as long as they live."""

    def __init__(self, runner: Any, scheduler: Any) -> None:
        self.runner, self.scheduler = runner, scheduler
        self.seen: dict[str, Seen] = {}
        """By vLLM's own request id; empty when nobody asks."""
        self._scheduled: Any = None
        self._segments: dict[int, list[Segment]] = {}
        self._taken: dict[str, Taken] = {}
        self._metadata: Any = None
        self._fc_in: torch.Tensor | None = None
        self._context: list[int] = []
        """Per request: positions from here on are the draft's own, not context."""
        _wrap(runner, "execute_model", self._executing)
        _wrap(runner, "_model_forward", self._forwarding)
        _wrap(scheduler, "update_from_output", self._updating)
        if drafter := getattr(runner, "drafter", None):
            _wrap(drafter, "propose", self._proposing)
            _wrap(drafter, "build_per_group_and_layer_attn_metadata", self._attending)
            _wrap(drafter.model, "precompute_and_store_context_kv", self._taking_in)
            self.watch_fc(drafter.model.model.fc)

    def watch_fc(self, fc: torch.nn.Module) -> None:
        """Look at what goes into the draft's first projection."""

        def before(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
            self._fc_in = args[0]

        fc.register_forward_pre_hook(before)

    def _executing(self, original: Any, scheduled: Any, *args: Any, **kwargs: Any) -> Any:
        self._scheduled, self._taken = scheduled, {}
        output = original(scheduled, *args, **kwargs)
        self._note_logits()
        return output

    def _forwarding(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        if self.seen and self._scheduled is not None:
            positions = inspect.signature(original).bind(*args, **kwargs).arguments["positions"]
            planes = _planes(output)
            for part in self._divide(positions):
                if seen := self.seen.get(part.request):
                    kind = "verify" if part.position >= len(seen.request.prompt) else "prefill"
                    handed = [array(plane[part.window]) for plane in planes]
                    self._taken[part.request] = Taken(kind, part.position, handed)
                    seen.forwards.append(self._taken[part.request])
        return output

    def _divide(self, positions: torch.Tensor) -> list[Segment]:
        """Which rows of the running step are whose; kept until the step's output is known."""
        flat = positions[0] if positions.dim() > 1 else positions
        rows, drafted = self._scheduled.num_scheduled_tokens, self._scheduled
        parts, first = [], 0
        for name in self.runner.input_batch.req_ids:
            drafts = len(drafted.scheduled_spec_decode_tokens.get(name, ()))
            parts.append(Segment(name, first, rows[name], int(flat[first]), drafts))
            first += rows[name]
        self._segments[id(self._scheduled)] = parts
        return parts

    def _note_logits(self) -> None:
        state = self.runner.execute_model_state
        parts = self._segments.get(id(self._scheduled), [])
        if state is None or state.logits is None or not parts:
            return
        first = 0
        for part in parts:
            rows = part.drafts + 1
            seen = self.seen.get(part.request)
            if seen and seen.request.logits:
                position = part.position + part.rows - rows
                seen.logits.append(LogitRows(position, array(state.logits[first : first + rows])))
            first += rows

    def _proposing(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(original).bind(*args, **kwargs).arguments
        self._metadata, self._fc_in = given["common_attn_metadata"], None
        drafts = original(*args, **kwargs)
        rejected = given.get("num_rejected_tokens_gpu")
        anchors = self._metadata.seq_lens.tolist()
        if rejected is not None:
            anchors = [a - int(r) for a, r in zip(anchors, rejected.tolist(), strict=False)]
        return self._put_in(drafts, anchors, given["next_token_ids"].tolist())

    def _put_in(self, drafts: torch.Tensor, anchors: list[int], tokens: list[int]) -> torch.Tensor:
        for row, name in enumerate(self.runner.input_batch.req_ids[: len(drafts)]):
            seen = self.seen.get(name)
            if seen and seen.forced and anchors[row] >= len(seen.request.prompt):
                chosen = seen.forced.tokens(anchors[row], drafts.shape[1], tokens[row])
                drafts[row] = torch.tensor(chosen, dtype=drafts.dtype, device=drafts.device)
        return drafts

    def _attending(self, original: Any, metadata: Any, *args: Any, **kwargs: Any) -> Any:
        """Rejected rows get a slot too; the block that is drafted next is laid over them."""
        self._context = (metadata.seq_lens - metadata.max_query_len).tolist()
        return original(metadata, *args, **kwargs)

    def _taking_in(
        self, original: Any, states: torch.Tensor, positions: torch.Tensor, slots: Any = None
    ) -> None:
        """Rows that enter the draft's context: with a slot in its cache, before its own block."""
        original(states, positions, slots)
        if self._fc_in is None or not self._taken or not isinstance(slots, torch.Tensor):
            return
        planes = self._fc_in if self._fc_in.dim() > 1 else self._fc_in[None]
        starts = self._metadata.query_start_loc_cpu.tolist()
        for row, name in enumerate(self.runner.input_batch.req_ids[: len(starts) - 1]):
            window = slice(starts[row], starts[row + 1])
            entering = (slots[window] >= 0) & (positions[window] < self._context[row])
            if name in self._taken and bool(entering.any()):
                taken = self._taken[name]
                taken.received = array(planes[window][entering])
                taken.received_position = int(positions[window][entering][0])

    def _updating(self, original: Any, scheduled: Any, output: Any, *args: Any) -> Any:
        alive = set(self.scheduler.requests)
        for part in self._segments.pop(id(scheduled), ()):
            seen = self.seen.get(part.request)
            if seen is None or part.request not in alive:
                continue
            sampled = output.sampled_token_ids[output.req_id_to_index[part.request]]
            if part.position >= len(seen.request.prompt) and len(sampled):
                drafted = list(scheduled.scheduled_spec_decode_tokens.get(part.request, ()))
                seen.steps.append(Step(part.position, drafted, len(sampled) - 1))
        return original(scheduled, output, *args)


def _planes(output: Any) -> list[torch.Tensor]:
    """The planes in what a target's forward returned; none where it captured nothing."""
    if isinstance(output, tuple | list) and len(output) == 2:
        planes = output[1]
        if isinstance(planes, torch.Tensor):
            return [planes]
        if isinstance(planes, tuple | list):
            return [plane for plane in planes if isinstance(plane, torch.Tensor)]
    return []
