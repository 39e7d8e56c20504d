"""The embedded engine: a transformers target, drafted for by the authors' `dflash` as shipped.

Nothing of ours stands in front of it: what the authors' code accepts silently is its own result.
Planes are read where `extract_context_feature` returns them (the hand-over) and where the draft's
`fc` takes them in (the draft's input); acceptance by watching the target's verify calls.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.metadata
import json
from collections.abc import Iterator
from typing import Any

import dflash.model
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

from matrix.engines._messages import (
    Counters,
    Forward,
    Generation,
    Hook,
    Identity,
    LogitRows,
    Probed,
    Raised,
    Request,
    Started,
    StartSpec,
    Step,
)
from matrix.engines._rpc import engine_raised
from matrix.engines._tensors import array, describe, versions
from matrix.engines._watch import Call, Drafts, Watch
from matrix.errors import AdapterError

__all__ = ["TransformersEngine"]

_NO_HOOK = "the authors' code has no capture hook: it reads the target's output_hidden_states"
_LACKS = {
    "hook": _NO_HOOK,
    "reconfigure": _NO_HOOK,
    "probe": _NO_HOOK,
    "batch": "dflash_generate takes one request at a time",
    "prefix-cache": "dflash_generate starts every request with an empty cache",
    "chunk": "dflash_generate prefills in one forward",
    "sample": "dflash_generate samples from the whole vocabulary, without a seed",
    "counters": "dflash_generate publishes none",
    "runners": "dflash_generate is the only one",
    "public": "dflash_generate has none",
    "ranks": "dflash_generate runs in one process",
}


class TransformersEngine:
    """One target and, unless plain, its draft; implements `Engine`."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.target: Any = None
        self.draft: Any = None
        self.started_draft: Any = None

    def identify(self) -> Identity:
        """Versions; `version` is that of the `dflash` package."""
        return Identity(
            name="transformers",
            version=importlib.metadata.version("dflash"),
            lacks=_LACKS,
            settings={
                "main": {"runner": "dflash_generate", "mode": "eager", "kv_dtype": "as the model"},
                "plain": {"runner": "generate", "mode": "eager", "kv_dtype": "as the model"},
            },
            **versions(),
        )

    def start(self, spec: StartSpec) -> Started:
        """Load the target as the authors' benchmark does, then the draft by its class.

        Only the target's attention is left to transformers: the benchmark asks for SDPA, which
        gpt-oss doesn't have.
        """
        torch.manual_seed(0)
        options = {
            "dtype": getattr(torch, spec.dtype),
            "trust_remote_code": spec.trust_remote_code,
            "use_safetensors": True,
        }
        try:
            target = AutoModelForCausalLM.from_pretrained(spec.target, **options)
        except ValueError as error:
            if "Unrecognized configuration class" not in str(error):
                raise
            target = AutoModelForImageTextToText.from_pretrained(spec.target, **options)
        self.target = target.to(spec.device).eval()
        if spec.draft is not None:
            config = AutoConfig.from_pretrained(spec.draft)
            names = config.architectures or []
            cls = (
                dflash.model.DFlash2DraftModel
                if "DFlash2DraftModel" in names
                else dflash.model.DFlashDraftModel
            )
            draft = cls.from_pretrained(
                spec.draft,
                attn_implementation="sdpa",
                dtype=options["dtype"],
                use_safetensors=True,
            )
            self.draft = self.started_draft = draft.to(spec.device).eval()
        return Started(target=describe(self.target.config, self.target))

    def hook(self) -> Hook:
        """There is none to look at."""
        raise AdapterError(_NO_HOOK)

    def probe(self, ids: Any, depth: int, last_rank: bool) -> Probed:
        """There is none to try."""
        raise AdapterError(_NO_HOOK)

    def reconfigure(self, ids: Any) -> None:
        """There is none to call again."""
        raise AdapterError(_NO_HOOK)

    def configure(self, ids: Any) -> None:
        """Write the ids into the draft's config and build the draft anew: its resolver is there.

        The ids that it was started with bring back the started draft, with its weights.
        """
        config = copy.deepcopy(self.started_draft.config)
        started = _write_ids(config, ids)
        if json.dumps(started) == json.dumps(ids):
            self.draft = self.started_draft
            return
        torch.manual_seed(0)
        draft = type(self.started_draft)(config)
        self.draft = draft.to(self.target.device, self.target.dtype).eval()

    def generate(self, requests: list[Request]) -> list[Generation]:
        """Generate for one request after the other."""
        return [self._speculate(r) if self.draft is not None else self._plain(r) for r in requests]

    def counters(self) -> Counters:
        """There are none to read."""
        raise AdapterError(_LACKS["counters"])

    def resolvers(self, config: dict[str, Any]) -> dict[str, Any]:
        """There is one runner."""
        raise AdapterError(_LACKS["runners"])

    def stop(self) -> None:
        """Forget the models."""
        self.target = self.draft = self.started_draft = None

    def _plain(self, request: Request) -> Generation:
        prompt = torch.tensor([request.prompt], device=self.target.device)
        out = self.target.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=request.max_tokens,
            eos_token_id=request.stop or None,
            pad_token_id=0,
        )
        tokens = out[0, prompt.shape[1] :].tolist()
        return Generation(tokens, _finish(tokens, request), [], [])

    def _speculate(self, request: Request) -> Generation:
        prompt = torch.tensor([request.prompt], device=self.target.device)
        block = None if request.drafts is None else request.drafts + 1
        tokens: list[int] = []
        error: Raised | None = None
        with _watching(self.target, self.draft, request) as watch:
            try:
                out = dflash.model.dflash_generate(
                    self.draft,
                    self.target,
                    prompt,
                    request.max_tokens,
                    request.stop or None,
                    temperature=0.0,
                    block_size=block,
                )
                tokens = out[0, prompt.shape[1] :].tolist()
            except Exception as failure:
                error = engine_raised(failure)
        return Generation(
            tokens=tokens,
            finish=_finish(tokens, request),
            error=error,
            steps=[_step(call) for call in watch.calls[1:] if len(call.logits)],
            forwards=[_forward(call) for call in watch.calls],
            logits=[
                LogitRows(call.last - call.logits.shape[0] + 1, array(call.logits))
                for call in watch.calls
                if request.logits
            ],
        )


def _write_ids(config: Any, ids: Any) -> Any:
    """Put `ids` where the config keeps them (`None` deletes the key); return what stood there."""
    nested = getattr(config, "dflash_config", None)
    if isinstance(nested, dict) and "target_layer_ids" in nested:
        before = nested.pop("target_layer_ids")
        if ids is not None:
            nested["target_layer_ids"] = ids
        return before
    before = getattr(config, "target_layer_ids", None)
    if ids is not None:
        config.target_layer_ids = ids
    elif hasattr(config, "target_layer_ids"):
        del config.target_layer_ids
    return before


def _finish(tokens: list[int], request: Request) -> str:
    return "stop" if tokens and tokens[-1] in request.stop else "length"


def _step(call: Call) -> Step:
    """A verify call as a step; accepted = drafts that agree with the target's own argmax."""
    drafted = call.tokens[1:]
    chosen = call.logits.argmax(-1).tolist()
    accepted = next(
        (i for i, (a, b) in enumerate(zip(drafted, chosen, strict=False)) if a != b), len(drafted)
    )
    return Step(call.position, drafted, accepted)


def _forward(call: Call) -> Forward:
    return Forward(
        kind="verify" if call.verify else "prefill",
        position=call.position,
        handed=[] if call.handed is None else [array(call.handed[0])],
        received=None if call.received is None else array(call.received),
        received_position=call.received_position,
    )


@contextlib.contextmanager
def _watching(target: nn.Module, draft: Any, request: Request) -> Iterator[Watch]:
    """Hooks on target and draft for one generation, and the injected drafts' source."""
    if not isinstance(getattr(draft, "fc", None), nn.Module):
        raise AdapterError("the draft has no `fc`, where its planes are read")
    watch = Watch()
    handles = [
        target.register_forward_pre_hook(watch.target_called, with_kwargs=True),
        target.register_forward_hook(watch.target_returned),
        draft.register_forward_pre_hook(watch.draft_called, with_kwargs=True),
        draft.fc.register_forward_pre_hook(watch.draft_received),
    ]
    extract = dflash.model.extract_context_feature
    dflash.model.extract_context_feature = watch.handing(extract)
    drafts = Drafts(request, watch) if request.inject else None
    try:
        if drafts:
            drafts.put_in(draft)
        yield watch
    finally:
        dflash.model.extract_context_feature = extract
        for handle in handles:
            handle.remove()
        if drafts:
            drafts.take_out(draft)
