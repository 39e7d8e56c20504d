"""Planes as each fault would hand them over, made from what the target computed.

`PLANES` has the faults of the code book that show in planes; `garbage` is whatever else can go
wrong, which must never look like one of them. Imports torch: for training only.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import torch
from torch import Tensor

from matrix.canary._target import Lessons

__all__ = ["PLANES", "garbage", "narrowed", "right"]

Ids = Sequence[int]
Maker = Callable[[Lessons, Ids, random.Random], Tensor]
"""Lessons, layer ids and a source of chance to planes `[S, T, n, H]`."""


def right(seen: Lessons, ids: Ids, rng: random.Random) -> Tensor:
    """The outputs of the layers `ids`."""
    return torch.stack([seen.streams[:, layer + 1] for layer in ids], 2)


def _shifted(by: int) -> Maker:
    return lambda seen, ids, rng: right(seen, [layer + by for layer in ids], rng)


def _one_shifted(by: int) -> Maker:
    def make(seen: Lessons, ids: Ids, rng: random.Random) -> Tensor:
        changed = list(ids)
        changed[rng.randrange(len(ids))] += by
        return right(seen, changed, rng)

    return make


def _reversed(seen: Lessons, ids: Ids, rng: random.Random) -> Tensor:
    return right(seen, ids[::-1], rng)


def _branch(seen: Lessons, ids: Ids, rng: random.Random) -> Tensor:
    """The MLP's branch alone, as engines that keep two streams would; or both branches' sum."""
    if rng.random() < 0.5:
        return torch.stack([seen.mlp[:, layer] for layer in ids], 2)
    return torch.stack([seen.mlp[:, layer] + seen.attention[:, layer] for layer in ids], 2)


def _residual(seen: Lessons, ids: Ids, rng: random.Random) -> Tensor:
    """The stream before the last branch was added."""
    return torch.stack([seen.streams[:, layer + 1] - seen.mlp[:, layer] for layer in ids], 2)


def _next_norm(seen: Lessons, ids: Ids, rng: random.Random) -> Tensor:
    return torch.stack([seen.normed[:, layer] for layer in ids], 2)


def _repeated(seen: Lessons, ids: Ids, rng: random.Random) -> Tensor:
    if rng.random() < 0.3:
        return right(seen, [rng.choice(ids)] * len(ids), rng)
    place, source = rng.sample(range(len(ids)), 2)
    changed = list(ids)
    changed[place] = ids[source]
    return right(seen, changed, rng)


def _one_zero(seen: Lessons, ids: Ids, rng: random.Random) -> Tensor:
    planes = right(seen, ids, rng)
    planes[:, :, rng.randrange(len(ids))] = 0
    return planes


def _rows_late(seen: Lessons, ids: Ids, rng: random.Random) -> Tensor:
    """Every row is the one before it; where a forward begins, whatever stood in the buffer."""
    planes = right(seen, ids, rng)
    moved = planes.roll(1, 1)
    length = planes.shape[1]
    for start in (0, *(rng.randrange(length) for _ in range(rng.choice((0, 0, 1, 3))))):
        if start < length - 1:
            buffer = (planes[:, start], torch.zeros(()), planes[:, rng.randrange(length)])
            moved[:, start] = rng.choice(buffer)
    return moved


def _foreign(seen: Lessons, ids: Ids, rng: random.Random) -> Tensor:
    """Planes of a sequence that ends in another token; or of the same one, several rows ago."""
    planes = right(seen, ids, rng)
    length = planes.shape[1]
    if length > 4 and rng.random() < 0.3:
        return planes.roll(rng.randrange(2, min(length, 14)), 1)
    last = seen.tokens[:, -1]
    others = [(last != token).nonzero()[:, 0].tolist() for token in last]
    return planes[[rng.choice(other or [row]) for row, other in enumerate(others)]]


PLANES: Final[Mapping[str, Maker]] = MappingProxyType(
    {
        "ids-low": _shifted(-1),
        "ids-high": _shifted(1),
        "one-plane-low": _one_shifted(-1),
        "one-plane-high": _one_shifted(1),
        "reversed": _reversed,
        "residual-missing": _branch,
        "residual-only": _residual,
        "next-norm": _next_norm,
        "repeated": _repeated,
        "plane-zero": _one_zero,
        "rows-late": _rows_late,
        "foreign": _foreign,
    }
)
"""Name in the book -> how its planes are made."""


def narrowed(planes: Tensor, draw: torch.Generator, rng: random.Random) -> Tensor:
    """The same planes as a narrower type or a noisier kernel would have them: no fault."""
    match rng.randrange(3):
        case 0:
            return planes.bfloat16().float()
        case 1:
            return planes + 0.03 * planes.std() * torch.randn(planes.shape, generator=draw)
        case _:
            scale = planes.abs().amax() / torch.finfo(torch.float8_e4m3fn).max
            return (planes / scale).to(torch.float8_e4m3fn).float() * scale


def garbage(seen: Lessons, ids: Ids, draw: torch.Generator, rng: random.Random) -> Tensor:
    """Planes with a fault outside the book."""
    planes = right(seen, ids, rng)
    make = rng.choice((_all_over, _all_over, _other_layers, _one_off, _one_off, _rows_early))
    return make(planes, seen, ids, draw, rng)


def _all_over(
    planes: Tensor, seen: Lessons, ids: Ids, draw: torch.Generator, rng: random.Random
) -> Tensor:
    """Zero, noise, other columns, half the width, another sign, another order of the planes."""
    width, count = planes.shape[-1], planes.shape[2]
    half = rng.choice((slice(0, width // 2), slice(width // 2, width)))
    noise = planes.std() * torch.randn(planes.shape, generator=draw)
    match rng.randrange(7):
        case 0:
            return torch.zeros_like(planes)
        case 1:
            return noise
        case 2:
            columns = torch.randperm(width, generator=draw)
            return planes[..., columns if rng.random() < 0.5 else columns.sort().values.roll(1)]
        case 3:
            planes[..., half] = 0
            return planes
        case 4:
            return planes + rng.uniform(0.5, 1.5) * noise
        case 5:
            return -planes
        case _:
            order = list(range(count))
            while order in (sorted(order), sorted(order, reverse=True)):
                rng.shuffle(order)
            return planes[:, :, order]


def _other_layers(
    planes: Tensor, seen: Lessons, ids: Ids, draw: torch.Generator, rng: random.Random
) -> Tensor:
    """Layers that no fault of the book gives; -1 is the embeddings."""
    depth = seen.mlp.shape[1]
    while True:
        layers = [rng.randrange(-1, depth) for _ in ids]
        off = [abs(a - b) for a, b in zip(layers, ids, strict=True)]
        near = max(off) <= 1 and (len(set(off)) == 1 or sum(off) == 1)
        if not near and layers != list(ids[::-1]) and len(set(layers)) == len(layers):
            return right(seen, layers, rng)


def _rows_early(
    planes: Tensor, seen: Lessons, ids: Ids, draw: torch.Generator, rng: random.Random
) -> Tensor:
    """Every row is the one of the token behind it, the last one whatever comes next."""
    moved = planes.roll(-1, 1)
    moved[:, -1] = rng.choice((planes[:, 0], torch.zeros(()), planes[:, planes.shape[1] // 2]))
    return moved


def _one_off(
    planes: Tensor, seen: Lessons, ids: Ids, draw: torch.Generator, rng: random.Random
) -> Tensor:
    """One plane is noise, another size, other columns, other rows, or the only one there is."""
    one = rng.randrange(planes.shape[2])
    plane = planes[:, :, one].clone()
    match rng.randrange(5):
        case 0:
            planes[:, :, one] = plane.std() * torch.randn(plane.shape, generator=draw)
        case 1:
            planes[:, :, one] = rng.choice((0.3, 3.0, -1.0)) * plane
        case 2:
            planes[:, :, one] = plane[..., torch.randperm(plane.shape[-1], generator=draw)]
        case 3:
            planes[:, :, one] = plane.flip(1) if plane.shape[1] > 4 else -plane
        case _:
            planes.zero_()
            planes[:, :, one] = plane
    return planes
