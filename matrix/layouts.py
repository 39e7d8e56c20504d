"""The one resolver of draft config layouts: where a draft's file keeps its layer ids and their kin.

Published drafts use five layouts:

- `flat`: everything at top level (deepseek-ai's drafts);
- `nested`: `target_layer_ids` and `mask_token_id` in `dflash_config` (z-lab's, SpecForge's);
- `nested+rope`: newer z-lab files, where `block_size` moved into `dflash_config` too, and
  `rope_theta` into `rope_parameters`;
- `speculators`: `aux_hidden_state_layer_ids` beside `transformer_layer_config` (RedHatAI's);
- `in-checkpoint`: `dspark_*` keys in the target's own config (DeepSeek V4), no file of its own.

Ids are layer ids here, *outputs* of zero-based decoder layers, whatever the file stores. Keys named
`aux_hidden_state_layer_ids` hold boundaries (id + 1): so do the speculators trainer and vLLM, which
capture the residual stream *entering* layer b.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from matrix.errors import LayoutError

__all__ = ["DraftFacts", "Layout", "Semantics", "place", "read"]

Layout = Literal["flat", "nested", "nested+rope", "speculators", "in-checkpoint"]
Semantics = Literal["output", "boundary"]

_IDS: Final[Mapping[str, Semantics]] = {
    "dflash_config.target_layer_ids": "output",
    "target_layer_ids": "output",
    "dspark_target_layer_ids": "output",
    "aux_hidden_state_layer_ids": "boundary",
    "eagle_aux_hidden_state_layer_ids": "boundary",
}
_BLOCK: Final = ("dflash_config.block_size", "block_size", "dspark_block_size")
_MASK: Final = ("dflash_config.mask_token_id", "mask_token_id", "dspark_noise_token_id")
# One published draft (Inferact/Kimi-K3-DSpark) calls its number of taps `num_target_layers`; it then
# has the depth under the first of these.
_DEPTH: Final = ("target_num_hidden_layers", "num_target_layers", "dflash_config.num_target_layers")
_OFFSET: Final[Mapping[Semantics, int]] = {"output": 0, "boundary": 1}


@dataclass(frozen=True)
class DraftFacts:
    """What a draft's config says. A fact that it doesn't state is `None`, never guessed."""

    layout: Layout
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
        LayoutError: the layout is none of the five, two keys contradict each other, or a value has
            a type that no layout gives it.
    """
    layout = _layout(config)
    body = config["transformer_layer_config"] if layout == "speculators" else config
    own = layout != "in-checkpoint"  # else these keys describe the target
    ids, ids_key = _ids(config)
    return DraftFacts(
        layout=layout,
        ids=ids,
        ids_key=ids_key,
        semantics=_IDS[ids_key] if ids_key else None,
        block_size=_agreed(config, _BLOCK),
        mask_token_id=_agreed(config, _MASK),
        num_target_layers=_first(config, _DEPTH if own else ("num_hidden_layers",)),
        hidden_size=_first(body, ("hidden_size",)),
        target_hidden_size=_first(config, ("target_hidden_size",)),
        num_hidden_layers=_first(body, ("num_hidden_layers",)) if own else None,
        vocab_size=_first(body, ("vocab_size",)),
        draft_vocab_size=_first(config, ("draft_vocab_size",)),
    )


def place(
    base: dict[str, Any],
    *,
    layout: str,
    target_layer_ids: Sequence[int],
    block_size: int,
    mask_token_id: int,
    num_target_layers: int,
) -> dict[str, Any]:
    """Write a draft config in `layout`, as `read` reads it.

    Args:
        base: a plain transformers config (Qwen3's, say) of the draft's own layers, with
            `rope_theta` or `rope_parameters`; it isn't changed.
        layout: any but `in-checkpoint`, which has no file of its own.
        target_layer_ids: layer ids as outputs.
        block_size: tokens in a block.
        mask_token_id: token in the places to be drafted.
        num_target_layers: depth of the target; the speculators format has no key for it.

    Raises:
        LayoutError: `layout` can't be written.
    """
    ids = list(target_layer_ids)
    nested = {"mask_token_id": mask_token_id, "target_layer_ids": ids}
    if layout == "flat":
        return _old_rope(base) | nested | _top(block_size, num_target_layers)
    if layout == "nested":
        return _old_rope(base) | {"dflash_config": nested} | _top(block_size, num_target_layers)
    if layout == "nested+rope":
        inner = nested | {"block_size": block_size}
        return _new_rope(base) | {"dflash_config": inner, "num_target_layers": num_target_layers}
    if layout == "speculators":
        return _speculators(base, ids, block_size, mask_token_id)
    raise LayoutError(
        f"layout {layout!r} can't be written; flat, nested, nested+rope and speculators can"
    )


def _layout(config: Mapping[str, Any]) -> Layout:
    inner = config.get("dflash_config")
    for key in ("dflash_config", "transformer_layer_config"):
        if not isinstance(config.get(key, {}), Mapping):
            raise LayoutError(f"{key} is {config[key]!r}; it should be a table")
    if "transformer_layer_config" in config:
        return "speculators"
    if isinstance(inner, Mapping):
        moved = "block_size" in inner and "rope_parameters" in config
        return "nested+rope" if moved and "rope_theta" not in config else "nested"
    if "dspark_target_layer_ids" in config:
        return "in-checkpoint"
    if "target_layer_ids" in config or {"block_size", "mask_token_id"} <= config.keys():
        return "flat"
    raise LayoutError(
        "no known draft config layout: none of dflash_config, transformer_layer_config, "
        f"target_layer_ids, dspark_target_layer_ids among its keys {sorted(config)}"
    )


def _ids(config: Mapping[str, Any]) -> tuple[tuple[int, ...] | None, str | None]:
    found: dict[str, tuple[int, ...]] = {}
    for key, semantics in _IDS.items():
        value = _at(config, key)
        if value is not None:
            if not (isinstance(value, list) and all(type(number) is int for number in value)):
                raise LayoutError(f"{key} is {value!r}; it should be a list of whole numbers")
            found[key] = tuple(number - _OFFSET[semantics] for number in value)
    if len(set(found.values())) > 1:
        said = "; ".join(f"{key} says {list(ids)}" for key, ids in found.items())
        raise LayoutError(f"layer ids contradict each other (as outputs of layers): {said}")
    return next(((ids, key) for key, ids in found.items()), (None, None))


def _agreed(config: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    """The value under every one of `keys` that is there; `LayoutError` when they differ."""
    found = {key: value for key in keys if (value := _number(config, key)) is not None}
    if len(set(found.values())) > 1:
        said = "; ".join(f"{key} says {value}" for key, value in found.items())
        raise LayoutError(f"values contradict each other: {said}")
    return next(iter(found.values()), None)


def _first(config: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    values = (_number(config, key) for key in keys)
    return next((value for value in values if value is not None), None)


def _number(config: Mapping[str, Any], key: str) -> int | None:
    value = _at(config, key)
    if value is not None and type(value) is not int:
        raise LayoutError(f"{key} is {value!r}; it should be a whole number")
    return value


def _at(config: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key; an explicit `null` is as good as a missing key."""
    outer, _, inner = key.rpartition(".")
    table = config.get(outer) if outer else config
    return table.get(inner) if isinstance(table, Mapping) else None


def _top(block_size: int, num_target_layers: int) -> dict[str, Any]:
    return {"block_size": block_size, "num_target_layers": num_target_layers}


def _old_rope(base: dict[str, Any]) -> dict[str, Any]:
    """With `rope_theta` and `rope_scaling` at top level, as transformers 4 wrote them."""
    rope = dict(base.get("rope_parameters") or {})
    if not rope:
        return dict(base)
    theta = rope.pop("rope_theta", base.get("rope_theta"))
    scaling = None if rope.get("rope_type", "default") == "default" else rope
    rest = {key: value for key, value in base.items() if key != "rope_parameters"}
    return rest | {"rope_theta": theta, "rope_scaling": scaling}


def _new_rope(base: dict[str, Any]) -> dict[str, Any]:
    """With everything on rope in `rope_parameters`, as transformers 5 writes it."""
    rest = {key: v for key, v in base.items() if key not in {"rope_theta", "rope_scaling"}}
    if base.get("rope_parameters"):
        return rest
    scaling = base.get("rope_scaling") or {"rope_type": "default"}
    return rest | {"rope_parameters": {"rope_theta": base.get("rope_theta"), **scaling}}


def _speculators(
    base: dict[str, Any], ids: list[int], block_size: int, mask_token_id: int
) -> dict[str, Any]:
    outer = {"architectures", "auto_map", "dtype", "torch_dtype", "transformers_version"}
    proposal = {
        "accept_tolerance": 0.0,
        "proposal_type": "greedy",
        "speculative_tokens": block_size - 1,
        "verifier_accept_k": 1,
    }
    return {key: value for key, value in base.items() if key in outer} | {
        "aux_hidden_state_layer_ids": [layer + 1 for layer in ids],
        "block_size": block_size,
        "draft_vocab_size": base.get("vocab_size"),
        "mask_token_id": mask_token_id,
        "speculators_config": {
            "algorithm": "dflash",
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": {"architectures": [], "name_or_path": None},
        },
        "speculators_model_type": "dflash",
        "tie_word_embeddings": base.get("tie_word_embeddings", False),
        "transformer_layer_config": {
            key: value for key, value in _old_rope(base).items() if key not in outer
        },
    }
