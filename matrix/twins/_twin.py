"""What a built twin is."""

from __future__ import annotations

from typing import Final

import msgspec

from matrix.registry import Pair

__all__ = ["NOISE", "Twin", "served_as", "unbuilt"]

NOISE: Final = 4
"""How much further than a twin's own rounding in float32 a right row may be, where that is more
than the tolerance: longer prompts and other orders of summing round more than the probe (2.7 times
over 720 tokens, on a twin of 52 layers that blows rounding up to 3.5e-4)."""


class Twin(msgspec.Struct, frozen=True, kw_only=True):
    """A tiny random-weight target and draft, with a row's depth, layer pattern, ids and layout."""

    target: str
    """Folder of the target's checkpoint."""
    draft: str
    """Folder of the draft's checkpoint."""
    fingerprint: str
    """Hash of the recipe, the dtype and the library versions: equal means the same bytes."""
    arch: str
    """The target's architecture."""
    depth: int
    """Number of decoder layers."""
    width: int
    """Width of one plane."""
    vocab_size: int
    """Token ids are below it."""
    mask_token_id: int
    """The draft's mask token; never use it in a prompt by chance."""
    block_size: int
    """The draft's block, as its method counts it."""
    from_anchor: bool = False
    """Whether the anchor's place drafts too, as in native DSpark."""
    layer_ids: tuple[int, ...]
    """Layer ids, as outputs of zero-based decoder layers, whatever the draft's file stores."""
    layout: str
    """Layout of the draft's config."""
    dtype: str
    """Dtype of both checkpoints' weights."""
    separation: float
    """Smallest relative L2 between adjacent layers' outputs: of a row in float32, else of a plane."""
    noise: float
    """Largest relative L2 by which a plane in this dtype misses float32's; in float32, a row float64's."""
    notes: str
    """Where the twin is less than the row, or fills a blank; may be empty."""

    @property
    def drafts(self) -> int:
        """Drafts per step."""
        return self.block_size if self.from_anchor else self.block_size - 1


def served_as(pair: Pair, twin: Twin) -> str:
    """The name by which a server serves this very target: other weights have another one."""
    return f"{pair.key}@{twin.fingerprint}"


def unbuilt(pair: Pair) -> Twin:
    """What a row says of its twin where none is needed: nothing is on disk."""
    return Twin(
        target="",
        draft="",
        fingerprint="",
        arch=pair.arch,
        depth=pair.num_target_layers,
        width=0,
        vocab_size=0,
        mask_token_id=0,
        block_size=pair.block_size or 1,
        layer_ids=pair.target_layer_ids,
        layout=pair.layout or "",
        dtype=pair.dtype,
        separation=0.0,
        noise=0.0,
        notes="not built: classes alone are looked at",
    )
