"""A canary's target: trained to speak the language, then run once over the draft's lessons.

Imports torch: for training only.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from matrix.errors import TwinError
from matrix.reference._layers import anatomy, capture

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from matrix.canary._language import Language

__all__ = ["Lessons", "lessons", "teach_target"]

_STEPS: Final = 150
_RATE: Final = 2e-3


@dataclass(frozen=True)
class Lessons:
    """What the target computed over S token sequences of T tokens each, with N layers of width H."""

    tokens: Tensor
    """`[S, T]`."""
    following: Tensor
    """`[V]`: a token's successor; -1 outside the language."""
    families: Tensor
    """`[V]`: a token's family; -1 outside the language."""
    streams: Tensor
    """`[S, N + 1, T, H]`: the residual stream at boundary b, which enters layer b."""
    attention: Tensor
    """`[S, N, T, H]`: each layer's attention branch."""
    mlp: Tensor
    """`[S, N, T, H]`: each layer's MLP branch."""
    normed: Tensor
    """`[S, N, T, H]`: each layer's output, through the norm that is applied behind it."""

    def upto(self, rows: Tensor, length: int) -> Lessons:
        """Those sequences, cut behind `length` tokens."""
        parts = (self.streams, self.attention, self.mlp, self.normed)
        cut = [part[rows, :, :length] for part in parts]
        return Lessons(self.tokens[rows, :length], self.following, self.families, *cut)


def teach_target(model: nn.Module, language: Language, rng: random.Random) -> None:
    """Train every weight until each token is followed by its successor, then round to bfloat16.

    A linear probe is trained beside it, which tells from a state what layer it left: so states of
    neighbouring layers are easy to tell apart, as they are in large models. Rounded, the weights
    are the same in float32 and in bfloat16.
    """
    layers = anatomy(model).layers
    width, depth = model.get_input_embeddings().weight.shape[1], len(layers)
    probe = nn.Linear(width, depth + 1)
    model.train()
    optimizer = torch.optim.AdamW([*model.parameters(), *probe.parameters()], weight_decay=0.0)
    for step in range(_STEPS):
        for group in optimizer.param_groups:
            group["lr"] = _RATE * min(1.0, (step + 1) / 20, 2 * (1 - step / _STEPS))
        tokens = _sequences(language, 16, 64, rng)
        with _streams(layers) as streams:
            logits = model(input_ids=tokens, use_cache=False).logits
        due = _successors(language, logits.shape[-1])[tokens]
        told = probe(functional.rms_norm(torch.stack(streams, 2), (width,)))
        left = torch.arange(depth + 1).expand(told.shape[:-1])
        loss = _entropy(logits, due) + _entropy(told, left)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16().float()
        parameter.requires_grad_(requires_grad=False)


def _entropy(logits: Tensor, due: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, -2), due.flatten())


@contextmanager
def _streams(layers: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """What enters the first layer and what leaves each, `[S, T, H]`, with gradients."""
    kept: list[Tensor] = []

    def entering(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        kept.append(args[0] if args else kwargs["hidden_states"])

    def leaving(module: nn.Module, args: Any, output: Any) -> None:
        kept.append(output[0] if isinstance(output, tuple) else output)

    handles = [layers[0].register_forward_pre_hook(entering, with_kwargs=True)]
    handles += [layer.register_forward_hook(leaving) for layer in layers]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def lessons(
    model: nn.Module, language: Language, count: int, length: int, rng: random.Random
) -> Lessons:
    """Run `count` sequences of `length` tokens, the families in turn.

    Raises:
        TwinError: the target doesn't speak the language.
    """
    tokens = _sequences(language, count, length, rng)
    kept = [capture(model, row.tolist(), detail=True) for row in tokens]
    following = _successors(language, kept[0]["logits"].shape[-1])
    wrong = sum(
        int((one["logits"].argmax(-1) != following[row]).sum())
        for one, row in zip(kept, tokens, strict=True)
    )
    if wrong:
        raise TwinError(
            f"the target misses {wrong} of {tokens.numel()} successors, 0 is due; train it longer"
        )
    embedding = torch.stack([one["embedding"] for one in kept])[:, None]
    stacked: dict[str, Any] = {
        name: torch.stack([one[name] for one in kept])
        for name in ("layers", "attention", "mlp", "next_normed")
    }
    return Lessons(
        tokens,
        following,
        _families(language, following.shape[0]),
        torch.cat([embedding, stacked["layers"]], 1),
        stacked["attention"],
        stacked["mlp"],
        stacked["next_normed"],
    )


def _sequences(language: Language, count: int, length: int, rng: random.Random) -> Tensor:
    prompts = [language.prompts(number % 2, [length], rng)[0] for number in range(count)]
    return torch.tensor(prompts)


def _successors(language: Language, vocabulary: int) -> Tensor:
    following = torch.full((vocabulary,), -1)
    for cycle in language.cycles:
        following[list(cycle)] = torch.tensor(cycle).roll(-1)
    return following


def _families(language: Language, vocabulary: int) -> Tensor:
    families = torch.full((vocabulary,), -1)
    for number, cycle in enumerate(language.cycles):
        families[list(cycle)] = number
    return families
