"""What a draft's config states, and under which keys: nothing is chosen or judged yet.

One fact may stand under several keys; each is a `Claim`. `read` takes claims that agree,
preflight says which ones don't.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from matrix.errors import LayoutError

__all__ = ["Claim", "Claims", "Layout", "Semantics", "at", "claims", "whole"]

Layout = Literal["flat", "nested", "nested+rope", "speculators", "eagle3", "in-checkpoint"]
Semantics = Literal["output", "boundary"]

_OFFSET: Final[Mapping[Semantics, int]] = {"output": 0, "boundary": 1}
_IDS: Final[Mapping[str, Semantics]] = {
    "dflash_config.target_layer_ids": "output",
    "dspark_config.target_layer_ids": "output",
    "target_layer_ids": "output",
    "dspark_target_layer_ids": "output",
    "aux_hidden_state_layer_ids": "boundary",
    "eagle_aux_hidden_state_layer_ids": "boundary",
    "eagle_config.eagle_aux_hidden_state_layer_ids": "boundary",
    # Only vLLM's second runner reads these two, and adds nothing.
    "dflash_config.layer_ids": "boundary",
    "eagle_config.layer_ids": "boundary",
}
# vLLM, get_eagle3_aux_layers_from_config: V4.1 reads what *enters* its target layers.
_ENTERING: Final = ("deepseek_v41",)
_BLOCK: Final = (
    "dflash_config.block_size",
    "dspark_config.block_size",
    "block_size",
    "dspark_block_size",
)
_MASK: Final = (
    "dflash_config.mask_token_id",
    "dspark_config.mask_token_id",
    "mask_token_id",
    "dspark_noise_token_id",
    "pard_token",
    "ptd_token_id",
)
# One published draft (Inferact/Kimi-K3-DSpark) calls its number of taps `num_target_layers`; it then
# has the depth under the first of these.
_DEPTH: Final = (
    "target_num_hidden_layers",
    "num_target_layers",
    "dflash_config.num_target_layers",
    "dspark_config.num_target_layers",
)
_IN_CHECKPOINT: Final = (
    "dspark_target_layer_ids",
    "dspark_block_size",
    "dspark_noise_token_id",
    "dspark_markov_rank",
)
_TABLES: Final = ("dflash_config", "dspark_config", "eagle_config", "transformer_layer_config")


@dataclass(frozen=True)
class Claim:
    """One key of a config that states a fact."""

    key: str
    """Dotted: `dflash_config.target_layer_ids`."""
    value: Any
    """As the file writes it, of whatever type."""
    semantics: Semantics = "output"
    """Of layer ids: what the numbers mean in the file."""

    @cached_property
    def outputs(self) -> tuple[int, ...] | None:
        """Layer ids as outputs, or `None` when the value is no list of whole numbers."""
        if not isinstance(self.value, list) or not all(map(whole, self.value)):
            return None
        return tuple(number - _OFFSET[self.semantics] for number in self.value)


@dataclass(frozen=True)
class Claims:
    """What one draft config states. An explicit `null` is as good as a missing key."""

    layout: Layout
    method: str
    """`dflash`, `dflash2`, `dspark`, `eagle3`, or what a speculators file calls it."""
    body: Mapping[str, Any]
    """The table with the shape of the draft's own layers."""
    ids: tuple[Claim, ...]
    block: tuple[Claim, ...]
    mask: tuple[Claim, ...]
    depth: tuple[Claim, ...]

    @property
    def own(self) -> bool:
        """Whether the config is the draft's own; else its shape keys describe the target."""
        return self.layout != "in-checkpoint"


def claims(config: Mapping[str, Any]) -> Claims:
    """Find the layout of a draft's parsed `config.json`, and what it states.

    Raises:
        LayoutError: the layout is none that is known, or a table is something else.
    """
    for key in (*_TABLES, "text_config"):
        if not isinstance(config.get(key) or {}, Mapping):
            raise LayoutError(f"{key} is {config[key]!r}; it should be a table")
    layout = _layout(config)
    body = _body(config, layout)
    # A multimodal target keeps its text model's keys one level down.
    in_target = layout == "in-checkpoint"
    home = body if in_target else config
    kind = home.get("model_type")
    return Claims(
        layout=layout,
        method=_method(home, layout),
        body=body,
        ids=tuple(
            Claim(key, value, "boundary" if _entering(key, kind) else semantics)
            for key, semantics in _IDS.items()
            if (value := at(home, key)) is not None
        ),
        block=tuple(_claims(home, _BLOCK)),
        mask=tuple(_claims(home, _MASK)),
        depth=tuple(_claims(home, ("num_hidden_layers",) if in_target else _DEPTH)),
    )


def at(config: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key, or `None`."""
    outer, _, inner = key.rpartition(".")
    table = config.get(outer) if outer else config
    return table.get(inner) if isinstance(table, Mapping) else None


def whole(value: Any) -> bool:
    """Whether a value is a whole number; JSON's `true` is none."""
    return type(value) is int


def _claims(config: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[Claim]:
    return (Claim(key, value) for key in keys if (value := at(config, key)) is not None)


def _entering(key: str, model_type: Any) -> bool:
    return key == "dspark_target_layer_ids" and model_type in _ENTERING


def _layout(config: Mapping[str, Any]) -> Layout:
    inner = config.get("dflash_config")
    if "transformer_layer_config" in config:
        return "speculators"
    if isinstance(inner, Mapping) or isinstance(config.get("dspark_config"), Mapping):
        moved = at(config, "dflash_config.block_size") is not None
        rope = config.get("rope_parameters") is not None and config.get("rope_theta") is None
        return "nested+rope" if moved and rope else "nested"
    if any(key in _body(config, "in-checkpoint") for key in _IN_CHECKPOINT):
        return "in-checkpoint"
    named = _named(config)
    if "target_layer_ids" in config or {"block_size", "mask_token_id"} <= config.keys():
        return "flat"
    if (
        "eagle3" in named
        or "eagle_aux_hidden_state_layer_ids" in config
        or "eagle_config" in config
    ):
        return "eagle3"
    if "dflash" in named or "dspark" in named:
        return "flat"
    raise LayoutError(
        "no known draft config layout: none of dflash_config, transformer_layer_config, "
        "target_layer_ids, dspark_target_layer_ids, eagle_config among its keys "
        f"{_some(sorted(map(str, config)))}"
    )


def _body(config: Mapping[str, Any], layout: Layout) -> Mapping[str, Any]:
    """Where the shape of the draft's layers (in the checkpoint: the target's) is described."""
    inner = config.get("transformer_layer_config" if layout == "speculators" else "text_config")
    return inner if isinstance(inner, Mapping) and inner else config


def _method(config: Mapping[str, Any], layout: Layout) -> str:
    if layout in ("in-checkpoint", "eagle3"):
        return "dspark" if layout == "in-checkpoint" else "eagle3"
    stated = config.get("speculators_model_type")
    if layout == "speculators" and isinstance(stated, str):
        return "eagle3" if stated == "peagle" else stated
    named = _named(config)
    if "dspark" in named or config.get("markov_rank") or at(config, "dspark_config.markov_rank"):
        return "dspark"
    if "eagle3" in named and layout == "speculators":
        return "eagle3"
    convolves = at(config, "dflash_config.conv_kernel_size") or config.get("conv_kernel_size")
    return "dflash2" if "dflash2" in named or convolves else "dflash"


def _named(config: Mapping[str, Any]) -> str:
    """The draft's class and model type, in lower case, to look for a method's name in."""
    classes = config.get("architectures")
    listed = classes if isinstance(classes, list) else []
    return " ".join(map(str, [*listed, config.get("model_type")])).lower()


def _some(keys: list[str]) -> str:
    shown = [key[:60] for key in keys[:40]]
    return f"{shown}" + (f" and {len(keys) - 40} more" if len(keys) > 40 else "")
