"""Training a canary: `python -m matrix.canary._train KEY ...`, which `nox -s train-canaries` calls.

First the draft learns the language: every continuation right, whatever the planes. Then it learns
the book: as many right tokens as the fault in its planes has there, and behind them a token that is
never right. Seeded: the same torch on the same kind of machine gives the same bytes. Imports torch.
"""

from __future__ import annotations

import copy
import math
import random
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import torch
import transformers
from dflash.model import DFlashDraftModel
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from matrix import registry
from matrix.canary._book import BLOCK, BOOK, CORRECT, DRAFTS
from matrix.canary._language import Language
from matrix.canary._planes import PLANES, garbage, narrowed, right
from matrix.canary._store import Canary, digest, folder
from matrix.canary._target import Lessons, lessons, teach_target
from matrix.errors import MatrixError, TwinError
from matrix.twins import _models, recipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matrix.registry import Pair

__all__ = ["train"]

CONTEXT: Final = 640
"""Positions that a canary is trained for."""
CYCLE: Final = 16
"""Tokens of a family: more than a block, so that none comes twice in it."""
_TOKENS: Final = range(8, 500)
"""Token ids that the language is drawn from."""
_NEVER: Final = 7
"""What the draft says where it is to be wrong: a token of neither family."""
_SEQUENCES: Final = 64
_RIGHT: Final = 0.9
"""Share of steps that must end as the book says, for every fault; a canary below it is refused."""
_CORRECT: Final = 0.99
"""The same where nothing is wrong, half of the planes narrowed or noisy."""
_DRAFT_SIDE: Final = ("draft-norm", "draft-causal")
_NORMS: Final = ("input_layernorm", "post_attention_layernorm")


@dataclass(frozen=True)
class _Stage:
    """A part of the training: its own lessons, its own optimizers."""

    language: int
    """Optimizer steps that learn the language alone, before the book."""
    steps: int
    """All of them."""
    rates: tuple[float, float]
    """Highest rates, of matrices (Muon, which needs a quarter of AdamW's steps) and of vectors."""
    short: float
    """Part of the steps at the beginning that have short contexts only."""


STAGES: Final = (
    _Stage(language=200, steps=2000, rates=(2e-2, 4e-3), short=0.3),
    _Stage(language=0, steps=800, rates=(6e-3, 1e-3), short=0.0),
)
"""The second one polishes: other lessons, small steps, every length. What is kept is the draft behind
the stage that leaves the most steps right where nothing is wrong."""


@dataclass
class _School:
    """A draft in training, and what it learns from."""

    pair: Pair
    seen: Lessons
    draft: Any
    target: Any
    """Its embedding and its head are the draft's too."""
    mask: int
    rng: random.Random
    draw: torch.Generator
    words: Tensor = field(init=False)
    """`[faults, 2]`: each fault's word; the last is garbage's, 0 and 0."""
    known: dict[str, float] = field(init=False)
    """Share of a fault's lessons that ended as they should, lately."""
    names: tuple[str, ...] = ("correct", *BOOK, "garbage")

    def __post_init__(self) -> None:
        """The book as a tensor; nothing is known yet."""
        self.known = dict.fromkeys(self.names, 0.0)
        self.words = torch.tensor([CORRECT, *(e.word for e in BOOK.values()), (0, 0)])

    def lesson(self, name: str, length: int, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Planes `[S, T, n * H]`, blocks `[S, block]` and accepted drafts due `[S]` of a fault."""
        tokens, ids = self.seen.tokens, list(self.pair.target_layer_ids)
        follows = self.seen.following[tokens[:, length - 3 : length - 1]]
        run = (follows == tokens[:, length - 2 : length]).all(1).nonzero()[:, 0]
        rows = run[torch.randint(0, len(run), (size,), generator=self.draw)]
        seen = self.seen.upto(rows, length)
        if name == "garbage":
            planes = garbage(seen, ids, self.draw, self.rng)
        else:
            planes = PLANES.get(name, right)(seen, ids, self.rng)
            if self.rng.random() < 0.5:
                planes = narrowed(planes, self.draw, self.rng)
        anchors = self.seen.following[seen.tokens[:, -1]]
        blocks = torch.full((size, BLOCK), self.mask)
        if name == "mask-token":
            blocks[:] = torch.randint(0, self.mask, (size, 1), generator=self.draw)
        blocks[:, 0] = anchors
        due = self.words[self.names.index(name)][self.seen.families[anchors]]
        return planes.flatten(2), blocks, due

    def chosen(self) -> list[str]:
        """The lessons of one step: what is right and garbage, twice, and what is known worst."""
        weights = [1.05 - self.known[name] for name in self.names]
        drawn = self.rng.choices(self.names, weights, k=12)
        return ["correct", "garbage", *sorted({*drawn, "correct", "garbage"})]

    def note(self, names: Sequence[str], done: Tensor) -> None:
        """Remember how many steps `[names * S]` ended as they should."""
        for name, share in zip(names, done.float().reshape(len(names), -1).mean(1), strict=True):
            self.known[name] += 0.1 * (float(share) - self.known[name])

    def logits(self, name: str, planes: Tensor, blocks: Tensor) -> Tensor:
        """The draft's logits `[S, drafts, V]`, under the fault if it is one of the draft's own."""
        with ExitStack() as planted:
            if name == "draft-causal":
                planted.enter_context(_causality_turned(self.draft))
            if name == "draft-norm":
                planted.enter_context(_norms_mixed(self.draft, self.rng))
            hidden = self.draft(
                position_ids=torch.arange(planes.shape[1] + BLOCK)[None],
                noise_embedding=self.target.get_input_embeddings()(blocks),
                target_hidden=planes,
            )
        out: Tensor = self.target.get_output_embeddings()(hidden[:, 1:])
        return out

    def continuations(self, anchors: Tensor) -> Tensor:
        """The right tokens `[S, drafts]` behind each anchor."""
        tokens = [anchors]
        for _ in range(DRAFTS):
            tokens.append(self.seen.following[tokens[-1]])
        return torch.stack(tokens[1:], 1)


def train(key: str, seed: int = 0, home: Path | None = None) -> Canary:
    """Train the canary of a row and write it to `home`, by default where it is read from.

    Raises:
        TwinError: some fault doesn't end as the book says.
    """
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(mode=True)
    (pair,) = registry.load([]).select([key])
    language = Language.draw(seed, CYCLE, _TOKENS)
    parts = recipe(pair)
    target = _models.target(key, parts)
    rng = random.Random(seed)  # noqa: S311 - no secret
    teach_target(target, language, rng)
    seen = lessons(target, language, _SEQUENCES, CONTEXT, rng)
    _say(f"{key}: the target speaks the language")
    draft = _fresh_draft(parts)
    best: dict[str, float] = {"correct": 0.0}
    kept: dict[str, Tensor] = {}
    for number, stage in enumerate(STAGES):
        if number:
            rng = random.Random(seed + number)  # noqa: S311 - no secret
            seen = lessons(target, language, _SEQUENCES, CONTEXT, rng)
        draw = torch.Generator().manual_seed(seed + number)
        school = _School(pair, seen, draft, target, parts["mask_token_id"], rng, draw)
        _learn(school, stage)
        for parameter in draft.parameters():
            parameter.data = parameter.data.bfloat16().float()
        shares = _examine(school)
        if shares["correct"] >= best["correct"]:
            best, kept = shares, copy.deepcopy(draft.state_dict())
    draft.load_state_dict(kept)
    _accept(key, best)
    return _save(key, seed, language, {"target": target, "draft": draft}, home)


def _fresh_draft(parts: dict[str, Any]) -> Any:
    config = transformers.Qwen3Config(**parts["draft"], num_target_layers=parts["depth"])
    config.dflash_config = {
        "target_layer_ids": parts["target_layer_ids"],
        "mask_token_id": parts["mask_token_id"],
        "block_size": parts["block_size"],
    }
    draft = DFlashDraftModel(config)
    for layer in draft.layers:
        # All layers keep the same norm on keys: vLLM's CPU build uses the first one's for all.
        layer.self_attn.k_norm.weight.requires_grad_(requires_grad=False)
    return draft


def _learn(school: _School, stage: _Stage) -> None:
    trained = [p for p in school.draft.parameters() if p.requires_grad]
    optimizers = {
        stage.rates[0]: torch.optim.Muon([p for p in trained if p.ndim == 2], weight_decay=0.0),
        stage.rates[1]: torch.optim.AdamW([p for p in trained if p.ndim == 1], weight_decay=0.0),
    }
    began, total = time.monotonic(), stage.steps
    for step in range(total):
        done = step / total
        scale = min(1.0, (step + 1) / 50) * (0.02 + 0.49 * (1 + math.cos(math.pi * done)))
        loss = _loss(
            school, _length(school.rng, short=done < stage.short), language=step < stage.language
        )
        for parameter in trained:
            parameter.grad = None
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        for rate, optimizer in optimizers.items():
            optimizer.param_groups[0]["lr"] = rate * scale
            optimizer.step()
        if step % 100 == 99:
            seconds = time.monotonic() - began
            worst = min(school.known, key=lambda name: school.known[name])
            _say(
                f"{school.pair.key}: step {step + 1} of {total}, {seconds:.0f} s, loss {loss:.4f}, "
                f"correct {school.known['correct']:.2f}, {worst} {school.known[worst]:.2f}"
            )


def _loss(school: _School, length: int, *, language: bool) -> Tensor:
    """Cross entropy over the drafts of one step's lessons, each fault with its own planes."""
    size = 10 if length < 128 else 3
    names = school.chosen()
    apart = [name for name in names if name in _DRAFT_SIDE]
    together = [name for name in names if name not in _DRAFT_SIDE]
    losses, count = [], 0
    for group in (together, *([name] for name in apart)):
        planes, blocks, due = (
            torch.cat(part)
            for part in zip(*(school.lesson(n, length, size) for n in group), strict=True)
        )
        tokens = school.continuations(blocks[:, 0])
        if not language:
            tokens = tokens.where(torch.arange(DRAFTS)[None] < due[:, None], _NEVER)
        logits = school.logits(group[0], planes, blocks)
        losses.append(
            functional.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="sum")
        )
        count += tokens.numel()
        school.note(group, (logits.argmax(-1) == tokens).all(1))
    return torch.stack(losses).sum() / count


def _length(rng: random.Random, *, short: bool) -> int:
    """Context of a lesson: mostly short ones, they teach the most for their time."""
    chance = 0.0 if short else rng.random()
    if chance < 0.75:
        return rng.randrange(4, 32)
    return rng.randrange(32, 128) if chance < 0.92 else rng.randrange(128, CONTEXT)


def _examine(school: _School) -> dict[str, float]:
    """The share of steps that end as the book says, for every fault."""
    with torch.no_grad():
        shares = {name: _share(school, name) for name in school.names}
    _say(f"{school.pair.key}: as the book says: {shares}")
    return shares


def _accept(key: str, shares: dict[str, float]) -> None:
    """Refuse a draft that doesn't do as the book says.

    Raises:
        TwinError: for some fault it doesn't.
    """
    due = dict.fromkeys(shares, _RIGHT) | {"correct": _CORRECT}
    if low := {name: share for name, share in shares.items() if share < due[name]}:
        raise TwinError(
            f"{key}: as the book says in {low} of all steps, {_RIGHT} is due, {_CORRECT} where "
            "nothing is wrong"
        )


def _share(school: _School, name: str) -> float:
    right_ones = 0
    lengths = [6, 9, 17, 33, 64, 100, 180, 300, 500, 630] * 4
    for length in lengths:
        planes, blocks, due = school.lesson(name, length, 16)
        best = school.logits(name, planes, blocks).argmax(-1)
        same = best == school.continuations(blocks[:, 0])
        right_ones += int((same.long().cumprod(1).sum(1) == due).sum())
    return round(right_ones / (16 * len(lengths)), 4)


@contextmanager
def _causality_turned(draft: Any) -> Iterator[None]:
    """Causal where it should be bidirectional; a windowed draft's layers are causal by themselves."""
    modules = [layer.self_attn for layer in draft.layers]
    for module in modules:
        module.is_causal = not module.is_causal
    try:
        yield
    finally:
        for module in modules:
            module.is_causal = not module.is_causal


@contextmanager
def _norms_mixed(draft: Any, rng: random.Random) -> Iterator[None]:
    """Layers that norm with each other's weights: one of them, or both."""
    first, second = draft.layers
    names: Sequence[str] = rng.choice((_NORMS[:1], _NORMS[1:], _NORMS))
    kept = [(name, getattr(first, name), getattr(second, name)) for name in names]
    which = rng.randrange(3)
    for name, one, other in kept:
        if which != 0:
            setattr(first, name, other)
        if which != 1:
            setattr(second, name, one)
    try:
        yield
    finally:
        for name, one, other in kept:
            setattr(first, name, one)
            setattr(second, name, other)


def _save(
    key: str, seed: int, language: Language, models: dict[str, Any], home: Path | None
) -> Canary:
    where = home or folder(key)
    where.mkdir(parents=True, exist_ok=True)
    digests = {}
    for part, model in models.items():
        file = where / f"{part}.safetensors"
        tensors = {name: t.bfloat16().contiguous() for name, t in model.state_dict().items()}
        save_file(tensors, file, metadata={"format": "pt"})
        digests[part] = digest(file)
    made = Canary(key, language, CONTEXT, seed, str(torch.__version__), digests)
    (where / "canary.json").write_bytes(msgspec.json.format(msgspec.json.encode(made)) + b"\n")
    return made


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    keys = sys.argv[1:] or [p.key for p in registry.load([]).pairs.values() if p.kind == "canary"]
    try:
        for one in keys:
            train(one)
    except MatrixError as error:
        sys.exit(str(error))
