"""SGLang's scheduler, driven in this process: what its event loop does, one step at a time.

Its own entry point runs the scheduler in a subprocess, where neither a planted fault nor the watch
would reach it, and layer ids could be given at start alone.
"""

from __future__ import annotations

from array import array as token_array
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from sglang.srt.distributed import parallel_state
from sglang.srt.layers.logits_processor import LogitsProcessor
from sglang.srt.managers.io_struct import TokenizedGenerateReqInput
from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.runtime_context import SpawnRanks, publish, reset_context
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.server_args import PortArgs, ServerArgs

from matrix.engines._messages import Forward, LogitRows, Request, Step
from matrix.engines._sglang_draft import Draft, verified
from matrix.engines._tensors import array
from matrix.errors import AdapterError, EngineError

__all__ = ["Core", "Seen", "make_known", "shut_down"]

_PLANES: Final = 4
"""Where `LogitsProcessor.forward` takes the planes, by position."""


@dataclass
class Seen:
    """One request, and what was seen of it."""

    request: Request
    req: Req
    forwards: list[Forward] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    logits: list[LogitRows] = field(default_factory=list)


@dataclass(frozen=True)
class _Rows:
    """The rows of one request in a batch."""

    seen: Seen
    kind: str
    position: int
    count: int


def make_known(args: ServerArgs) -> None:
    """Publish resolved arguments to this process, as SGLang's scheduler process does first."""
    publish(args, role="scheduler", ranks=SpawnRanks(world_rank=0, gpu_id=0))


def shut_down() -> None:
    """Leave nothing of a scheduler behind that keeps another from starting in this process."""
    if torch.distributed.is_initialized():
        parallel_state.destroy_model_parallel()
        parallel_state.destroy_distributed_environment()
    reset_context()


class Core:
    """One scheduler with its model; `capturing` says whether planes are handed over at all."""

    def __init__(self, args: ServerArgs, *, capturing: bool) -> None:
        make_known(args)
        self.scheduler = Scheduler(args, PortArgs.init_new(args))
        self.capturing = capturing
        worker = self.scheduler.draft_worker
        self.draft = Draft(worker) if worker is not None else None
        self._planes: Any = None
        self._fed: Any = None
        self._seen: dict[str, Seen] = {}
        self.processor.register_forward_pre_hook(self._handed, with_kwargs=True)

    @property
    def runner(self) -> Any:
        """The target's model runner."""
        return self.scheduler.tp_worker.model_runner

    @property
    def processor(self) -> LogitsProcessor:
        """What takes the planes from the target's forward."""
        found = [m for m in self.runner.model.modules() if isinstance(m, LogitsProcessor)]
        if len(found) != 1:
            raise AdapterError(f"{len(found)} logits processors in the target, expected one")
        return found[0]

    def add(self, name: str, request: Request) -> Seen:
        """Queue a request, as one that arrived tokenized.

        Raises:
            EngineError: SGLang takes it no further than its queue.
        """
        params = SamplingParams(
            max_new_tokens=request.max_tokens,
            temperature=0.0,
            stop_token_ids=request.stop or None,
            ignore_eos=True,
        )
        params.normalize(None)
        waiting = len(self.scheduler.waiting_queue)
        self.scheduler.handle_generate_request(
            TokenizedGenerateReqInput(
                rid=name,
                input_text=None,
                input_ids=token_array("q", request.prompt),
                input_embeds=None,
                mm_inputs=None,
                token_type_ids=None,
                sampling_params=params,
                return_logprob=False,
                logprob_start_len=-1,
                top_logprobs_num=0,
                token_ids_logprob=None,
                stream=False,
                return_hidden_states=self.capturing and self.draft is None,
                cache_salt=request.salt or f"alone-{name}",
            )
        )
        if len(self.scheduler.waiting_queue) == waiting:
            raise EngineError(
                "Rejected", f"the scheduler did not queue a prompt of {len(request.prompt)} tokens"
            )
        seen = Seen(request, self.scheduler.waiting_queue[-1])
        self._seen[name] = seen
        return seen

    def step(self) -> bool:
        """One turn of SGLang's event loop; `False` when there is nothing left to run."""
        scheduler = self.scheduler
        plan = scheduler.get_next_batch_to_run(
            running_batch=scheduler.running_batch, last_batch=scheduler.last_batch
        )
        scheduler.running_batch = plan.running_batch
        batch = plan.batch_to_run
        if batch:
            rows, self._planes = self._rows(batch), None
            result = scheduler.run_batch(batch)
            self._take(rows, result)
            scheduler.process_batch_result(batch, result)
        scheduler.last_batch = batch
        return bool(batch)

    def forget(self) -> None:
        """The requests are answered."""
        self._seen.clear()

    def reset(self) -> None:
        """Drop what is under way and all caches, after an exception in a step."""
        scheduler = self.scheduler
        scheduler.waiting_queue.clear()
        scheduler.running_batch = ScheduleBatch(reqs=[], batch_is_full=False)
        scheduler.last_batch = scheduler.chunked_req = None
        if not scheduler.flush_cache():
            raise AdapterError("the scheduler can't be cleared after an exception")

    def _handed(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before the logits: the target's forward hands its planes over."""
        self._fed = args[0]
        given = args[_PLANES] if len(args) > _PLANES else kwargs.get("aux_hidden_states")
        if given is not None:
            self._planes = [given] if isinstance(given, torch.Tensor) else list(given)

    def _rows(self, batch: ScheduleBatch) -> list[_Rows]:
        seen = [self._seen[req.rid] for req in batch.reqs]
        if batch.forward_mode.is_extend():
            parts = zip(seen, batch.prefix_lens, batch.extend_lens, strict=True)
            return [_Rows(s, "prefill", int(at), int(count)) for s, at, count in parts]
        # The first row of a decode or verify step is that of the token emitted last.
        count = self.draft.block if self.draft else 1
        last = (len(s.request.prompt) + len(s.req.output_ids) - 1 for s in seen)
        return [_Rows(s, "verify", at, count) for s, at in zip(seen, last, strict=True)]

    def _take(self, rows: list[_Rows], result: Any) -> None:
        """Share out what one forward gave; the draft's worker reads `hidden_states`."""
        output = result.logits_output
        received = self.draft.received if self.draft else output.hidden_states
        steps = self._steps(rows, result)
        start = 0
        for number, part in enumerate(rows):
            mine, start = slice(start, start + part.count), start + part.count
            seen, kept = part.seen, mine
            if part.kind == "verify":
                drafted, accepted = steps[number]
                seen.steps.append(Step(part.position, drafted, accepted))
                kept = slice(mine.start, mine.start + accepted + 1)
            if self.capturing:
                handed = [array(plane[mine]) for plane in self._planes or ()]
                taken = array(received[kept]) if handed else None
                seen.forwards.append(
                    Forward(part.kind, part.position, handed, taken, part.position)
                )
            self._take_logits(part, number, mine, output.next_token_logits)

    def _steps(self, rows: list[_Rows], result: Any) -> list[tuple[list[int], int]]:
        """What each request drafted and had accepted in a verify step; nothing without a draft."""
        if self.draft is None or rows[0].kind == "prefill":
            return [([], 0)] * len(rows)
        return verified(self._fed.tolist(), result.accept_lens.tolist(), self.draft.block)

    @staticmethod
    def _take_logits(part: _Rows, number: int, mine: slice, logits: Any) -> None:
        """A prefill gives the logits of its last row alone, a step those of every row."""
        prompt = len(part.seen.request.prompt)
        whole = part.kind == "verify"
        position = part.position if whole else part.position + part.count - 1
        if part.seen.request.logits and position >= prompt - 1:
            rows = logits[mine] if whole else logits[number : number + 1]
            part.seen.logits.append(LogitRows(position, array(rows)))
