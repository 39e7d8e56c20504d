"""A draft's config as facts: what its claims agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matrix.errors import LayoutError
from matrix.layouts._claims import Claim, Layout, Semantics, at, claims, whole

__all__ = ["DraftFacts", "read"]


@dataclass(frozen=True)
class DraftFacts:
    """What a draft's config says. A fact that it doesn't state is `None`, never guessed."""

    layout: Layout
    method: str
    """`dflash`, `dflash2`, `dspark`, `eagle3`, or what a speculators file calls it."""
    ids: tuple[int, ...] | None
    """Layer ids as outputs, in the file's order; out-of-range ones too."""
    ids_key: str | None
    """Where they were found, dotted (`dflash_config.target_layer_ids`)."""
    semantics: Semantics | None
    """What the numbers under `ids_key` mean in the file."""
    block_size: int | None
    """Tokens in a block, as the file counts them."""
    mask_token_id: int | None
    num_target_layers: int | None
    """Depth of the target."""
    hidden_size: int | None
    """Width of the draft's own layers."""
    target_hidden_size: int | None
    """Width of one plane, where the file states it apart from `hidden_size`."""
    num_hidden_layers: int | None
    """Number of the draft's own layers."""
    vocab_size: int | None
    draft_vocab_size: int | None

    @property
    def planes(self) -> int | None:
        """How many planes the draft's `fc` joins."""
        return None if self.ids is None else len(self.ids)

    @property
    def fc_in(self) -> int | None:
        """Input width of the draft's `fc` on a target with one stream: planes x plane width."""
        width = self.target_hidden_size or self.hidden_size
        return None if self.planes is None or width is None else self.planes * width


def read(config: Mapping[str, Any]) -> DraftFacts:
    """Resolve a draft's parsed `config.json`.

    Raises:
        LayoutError: the layout is none that is known, two keys contradict each other, or a value
            has a type that no layout gives it.
    """
    said = claims(config)
    ids = _ids(said.ids)
    return DraftFacts(
        layout=said.layout,
        method=said.method,
        ids=ids.outputs if ids else None,
        ids_key=ids.key if ids else None,
        semantics=ids.semantics if ids else None,
        block_size=_agreed(said.block),
        mask_token_id=_agreed(said.mask),
        num_target_layers=_number(said.depth[0]) if said.depth else None,
        hidden_size=_at(said.body, "hidden_size"),
        target_hidden_size=_at(config, "target_hidden_size"),
        num_hidden_layers=_at(said.body, "num_hidden_layers") if said.own else None,
        vocab_size=_at(said.body, "vocab_size"),
        draft_vocab_size=_at(config, "draft_vocab_size"),
    )


def _ids(found: Sequence[Claim]) -> Claim | None:
    for claim in found:
        if claim.outputs is None:
            raise LayoutError(
                f"{claim.key} is {claim.value!r}; it should be a list of whole numbers"
            )
    if len({claim.outputs for claim in found}) > 1:
        said = "; ".join(f"{claim.key} says {list(claim.outputs or ())}" for claim in found)
        raise LayoutError(f"layer ids contradict each other (as outputs of layers): {said}")
    return next(iter(found), None)


def _agreed(found: Sequence[Claim]) -> int | None:
    """The value of every claim; `LayoutError` when they differ."""
    values = [_number(claim) for claim in found]
    if len(set(values)) > 1:
        said = "; ".join(f"{claim.key} says {claim.value}" for claim in found)
        raise LayoutError(f"values contradict each other: {said}")
    return next(iter(values), None)


def _at(config: Mapping[str, Any], key: str) -> int | None:
    value = at(config, key)
    return None if value is None else _number(Claim(key, value))


def _number(claim: Claim) -> int:
    if not whole(claim.value):
        raise LayoutError(f"{claim.key} is {claim.value!r}; it should be a whole number")
    return int(claim.value)
