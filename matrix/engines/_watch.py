"""What the embedded engine's hooks see of one generation, and the drafts they may put in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from matrix.engines._drafts import Forced
from matrix.engines._messages import Request
from matrix.errors import AdapterError

__all__ = ["Call", "Drafts", "Watch"]


@dataclass
class Call:
    """One forward of the target: T tokens from sequence position `position`."""

    tokens: list[int]
    position: int
    verify: bool
    logits: torch.Tensor = field(default_factory=lambda: torch.empty(0, 0))
    """`[T or fewer, V]`: the last rows"""
    handed: torch.Tensor | None = None
    """`[1, T, n * H]` at the hand-over"""
    received: torch.Tensor | None = None
    """`[T', n * H]` at the draft's input"""
    received_position: int = 0

    @property
    def last(self) -> int:
        """Position of the last token."""
        return self.position + len(self.tokens) - 1


class Watch:
    """Collects the calls of one generation, in order; the first one is the prefill."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.draft_position = 0
        self.anchor = 0
        """Sequence position of the token that the running draft call continues."""

    def target_called(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Before a target forward."""
        tokens = args[0] if args else kwargs.get("input_ids")
        positions = kwargs.get("position_ids")
        if tokens is None or positions is None:
            raise AdapterError("dflash_generate no longer gives the target ids and positions")
        self.calls.append(Call(tokens[0].tolist(), int(positions[0, 0]), bool(self.calls)))

    def target_returned(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """After a target forward."""
        self.calls[-1].logits = output.logits[0]

    def handing(self, extract: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        """Wrap the function that hands the planes over."""

        def extracting(*args: Any, **kwargs: Any) -> torch.Tensor:
            handed = extract(*args, **kwargs)
            self.calls[-1].handed = handed.clone()
            return handed

        return extracting

    def draft_called(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Before a draft forward: its positions are those of the context, then of the block."""
        positions = kwargs["position_ids"][0].tolist()
        self.draft_position = positions[0]
        self.anchor = positions[len(positions) - kwargs["noise_embedding"].shape[1]]

    def draft_received(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """Before the draft's `fc`, which takes the planes in."""
        if self.calls:
            self.calls[-1].received = args[0][0].clone()
            self.calls[-1].received_position = self.draft_position


class Drafts:
    """Puts a request's injected drafts in the draft's place, on one draft object only."""

    def __init__(self, request: Request, watch: Watch) -> None:
        assert request.inject is not None, "only made for a request with injected drafts"
        self.request, self.inject, self.watch = request, request.inject, watch

    def put_in(self, draft: Any) -> None:
        """Replace the draft's choice of tokens."""
        forced: Forced | None = None

        def compute_logits(hidden: torch.Tensor, head: Any) -> torch.Tensor:
            nonlocal forced
            logits = head(hidden)
            forced = forced or Forced(self.request, self.inject, logits.shape[2])
            chosen = forced.tokens(self.watch.anchor, logits.shape[1])
            rows = torch.tensor(chosen, device=logits.device)[None, :, None]
            return torch.zeros_like(logits).scatter_(-1, rows, 1.0)

        def propose(
            hidden: torch.Tensor, anchor: torch.Tensor, head: Any, temperature: float
        ) -> tuple[torch.Tensor, None, None]:
            return compute_logits(hidden, head).argmax(-1), None, None

        draft.compute_logits = compute_logits
        if hasattr(draft, "propose"):
            draft.propose = propose

    def take_out(self, draft: Any) -> None:
        """Give the draft its own choice back."""
        del draft.compute_logits
        draft.__dict__.pop("propose", None)
