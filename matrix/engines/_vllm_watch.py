"""What a running vLLM hands over, takes in and accepts, seen from inside its core.

Wrapped on the live objects, never on classes, so that whatever a class was made to do is seen:

    runner.execute_model        which requests are in the step, and the logits
    runner._model_forward       the planes at the hand-over
    drafter.propose             which rows are whose; drafts may be put in
    drafter's fc                the planes as the draft takes them in
    precompute_and_store_...    at which positions they enter the draft's context
    build_per_group_...         how much of its context the draft then looks at
    scheduler.update_from_output  what was accepted; the scheduler is the engine's, not a rank's
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from vllm.v1.worker.gpu.spec_decode.eagle import eagle3_utils

from matrix.engines._drafts import Forced
from matrix.engines._messages import Array, Forward, LogitRows, Request, Step
from matrix.engines._tensors import array
from matrix.errors import AdapterError

__all__ = ["Seen", "Steps", "Taken", "Watch", "body"]


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
    """Wraps one rank's runner and drafter, for as long as they live."""

    def __init__(self, runner: Any) -> None:
        self.runner = runner
        self.seen: dict[str, Seen] = {}
        """By vLLM's own request id; empty when nobody asks."""
        self._scheduled: Any = None
        self._segments: list[Segment] = []
        self._taken: dict[str, Taken] = {}
        self._metadata: Any = None
        self._fc_in: torch.Tensor | None = None
        self._fc_hook: Any = None
        self._context: list[int] = []
        """Per request: positions from here on are the draft's own, not context."""
        _wrap(runner, "execute_model", self._executing)
        _wrap(runner, "_model_forward", self._forwarding)
        drafter = getattr(runner, "drafter", None)
        if drafter is not None and hasattr(drafter, "dflash_config"):
            _wrap(drafter, "propose", self._proposing)
            _wrap(drafter, "build_per_group_and_layer_attn_metadata", self._attending)
            _wrap(drafter.model, "precompute_and_store_context_kv", self._taking_in)
            self.watch_fc(drafter.model.model.fc)

    def watch_fc(self, fc: torch.nn.Module) -> None:
        """Look at what goes into the draft's first projection, this one and no other."""

        def before(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
            self._fc_in = args[0]

        if self._fc_hook is not None:  # the projection of the start comes back again and again
            self._fc_hook.remove()
        self._fc_hook = fc.register_forward_pre_hook(before)

    def _executing(self, original: Any, scheduled: Any, *args: Any, **kwargs: Any) -> Any:
        self._scheduled, self._taken, self._segments = scheduled, {}, []
        output = original(scheduled, *args, **kwargs)
        self._note_logits()
        return output

    def _forwarding(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        if self.seen and self._scheduled is not None:
            positions = inspect.signature(original).bind(*args, **kwargs).arguments["positions"]
            planes = _planes(output)
            self._segments = self._divide(positions)
            for part in self._segments:
                seen = self.seen.get(part.request)
                if seen and seen.request.planes:
                    kind = "verify" if part.position >= len(seen.request.prompt) else "prefill"
                    handed = [array(plane[part.window]) for plane in planes]
                    self._taken[part.request] = Taken(kind, part.position, handed)
                    seen.forwards.append(self._taken[part.request])
        return output

    def _divide(self, positions: torch.Tensor) -> list[Segment]:
        """Which rows of the running step are whose."""
        flat = positions[0] if positions.dim() > 1 else positions
        rows = self._scheduled.num_scheduled_tokens
        drafted = self._scheduled.scheduled_spec_decode_tokens
        parts, first = [], 0
        for name in self.runner.input_batch.req_ids:
            drafts = len(drafted.get(name, ()))
            parts.append(Segment(name, first, rows[name], int(flat[first]), drafts))
            first += rows[name]
        return parts

    def _note_logits(self) -> None:
        state = self.runner.execute_model_state
        if state is None or state.logits is None:
            return
        first = 0
        for part in self._segments:
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


class Steps:
    """Wraps one engine's scheduler: it is told what every verify step accepted."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.seen: dict[str, Seen] = {}
        _wrap(scheduler, "update_from_output", self._updating)

    def _updating(self, original: Any, scheduled: Any, output: Any, *args: Any) -> Any:
        for name, rows in scheduled.num_scheduled_tokens.items():
            seen, request = self.seen.get(name), self.scheduler.requests.get(name)
            if seen is None or request is None:
                continue
            position = request.num_computed_tokens - rows
            sampled = output.sampled_token_ids[output.req_id_to_index[name]]
            if position >= len(seen.request.prompt) and len(sampled):
                drafted = list(scheduled.scheduled_spec_decode_tokens.get(name, ()))
                seen.steps.append(Step(position, drafted, len(sampled) - 1))
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


def body(model: Any) -> Any:
    """The inner model whose layers capture, found as vLLM finds it."""
    inner = eagle3_utils._inner_decoder(model)
    if inner is None or not hasattr(inner, "aux_hidden_state_layers"):
        raise AdapterError("the target's body no longer keeps `aux_hidden_state_layers`")
    return inner
