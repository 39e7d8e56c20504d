"""How each engine's own resolver reads a draft's layer ids: models of them, read from their sources.

Of vllm 0.32.0, sglang 0.5.23 and dflash 0.1.0. Each model follows its original step by step, wrong
turns included: what it takes silently, what it guesses, what it refuses. Where the engine is
installed, its own function is asked instead (`_installed.py`), and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from matrix.layouts import Claims, TargetFacts

__all__ = ["ENGINES", "MOST_LAYERS", "How", "Reading", "needs_second_runner", "readings"]

ENGINES: Final = ("vllm", "sglang", "transformers")
"""Engines whose resolvers are known; `transformers` stands for the authors' `dflash` on it."""

MOST_LAYERS: Final = 1024
"""Layers of a draft at most: a config that states more is not asked about any further."""

How = Literal["read", "default", "guess", "refused"]
Config = Mapping[str, Any]


@dataclass(frozen=True)
class Reading:
    """What one resolver makes of a draft's config."""

    engine: str
    resolver: str
    """Which of the engine's resolvers: `first runner`, `second runner`, ..."""
    by: Literal["model", "installed"]
    """Our model of it, or the engine's own function."""
    how: How
    """The file's ids; the target class's defaults; a formula; or nothing, with a reason."""
    ids: tuple[int, ...] | None
    """As outputs of layers; `None` when refused."""
    note: str = ""
    """Why it refuses."""


class _Refused(Exception):  # noqa: N818 - never leaves this module
    pass


def readings(config: Config, said: Claims, target: TargetFacts) -> tuple[Reading, ...]:
    """What every resolver that can meet this draft makes of it."""
    return tuple(
        _ask(engine, name, resolver, config, said, target)
        for engine, name, resolver in _RESOLVERS
        if resolver is not _vllm_first or not needs_second_runner(config, said)
    )


def needs_second_runner(config: Config, said: Claims) -> bool:
    """Whether vLLM runs this draft on its second runner only (`VllmConfig`, 0.32.0)."""
    kinds = said.body.get("layer_types")
    sliding = (
        [kind == "sliding_attention" for kind in kinds] if isinstance(kinds, list) else [False]
    )
    return said.method in ("dspark", "dflash2") or (
        said.method == "dflash" and any(sliding) and not all(sliding)
    )


def _ask(
    engine: str, name: str, resolver: _Resolver, config: Config, said: Claims, target: TargetFacts
) -> Reading:
    try:
        how, ids = resolver(config, said, target)
    except _Refused as error:
        return Reading(engine, name, "model", "refused", None, str(error))
    return Reading(engine, name, "model", how, tuple(ids))


_Resolver = Callable[[Config, Claims, TargetFacts], tuple[How, Sequence[int]]]


# --- vLLM: both runners resolve to boundaries --------------------------------------------------


def _vllm_first(config: Config, said: Claims, target: TargetFacts) -> tuple[How, Sequence[int]]:
    """`GPUModelRunner._get_eagle3_aux_layers_from_config`."""
    view = _vllm_view(config, said)
    ids = view.get("eagle_aux_hidden_state_layer_ids")
    if not ids:
        ids = _up(_table(view, "dflash_config").get("target_layer_ids"))
        if eagle := _table(view, "eagle_config"):
            ids = eagle.get("eagle_aux_hidden_state_layer_ids")
    return _vllm_ids(ids, target)


def _vllm_second(config: Config, said: Claims, target: TargetFacts) -> tuple[How, Sequence[int]]:
    """`get_eagle3_aux_layers_from_config` of `eagle3_utils.py`."""
    view = _vllm_view(config, said)
    entering = view.get("model_type") == "deepseek_v41"
    in_target = view.get("dspark_target_layer_ids")
    found = (
        view.get("eagle_aux_hidden_state_layer_ids"),
        _up(_table(view, "dflash_config").get("target_layer_ids")),
        in_target if entering else _up(in_target),
        _up(view.get("target_layer_ids")),
        _table(view, "dflash_config").get("layer_ids"),
        _table(view, "eagle_config").get("layer_ids"),
    )
    return _vllm_ids(next((ids for ids in found if ids), None), target)


def _vllm_view(config: Config, said: Claims) -> Config:
    """The config as vLLM holds it: speculators files are translated (`speculators/algos.py`)."""
    if said.layout != "speculators":
        return config
    if config.get("speculators_config") is None:
        raise _Refused("takes a file without speculators_config for no speculators file")
    kind, body = config.get("speculators_model_type"), dict(said.body)
    if kind in ("eagle3", "peagle"):
        ids = config.get("eagle_aux_hidden_state_layer_ids")
        return body | ({"eagle_aux_hidden_state_layer_ids": ids} if ids else {})
    if kind not in ("dflash", "dflash2", "dspark"):
        raise _Refused(f"loads no speculators type {kind!r:.60}")
    ids = config.get("aux_hidden_state_layer_ids")
    if ids is None:
        raise _Refused("needs aux_hidden_state_layer_ids in a speculators file")
    if kind != "dspark" and config.get("mask_token_id") is None:
        raise _Refused("needs mask_token_id in a speculators file")
    placed = [number - 1 for number in _numbers(ids)]
    inner = {"target_layer_ids": placed}
    held = inner if kind == "dspark" else {"dflash_config": inner}
    return body | {"eagle_aux_hidden_state_layer_ids": ids} | held


def _vllm_ids(ids: Any, target: TargetFacts) -> tuple[How, Sequence[int]]:
    """Boundaries to outputs; without any, what `get_eagle3_default_aux_hidden_state_layers` says."""
    if ids and isinstance(ids, list):
        return "read", [number - 1 for number in _numbers(ids)]
    return "default", _defaults(target)


# --- SGLang ------------------------------------------------------------------------------------


def _sglang(config: Config, said: Claims, target: TargetFacts) -> tuple[How, Sequence[int]]:
    """`parse_dflash_draft_config` and what the runner does with it."""
    if said.layout == "speculators":
        raise _Refused("reads no speculators format")
    if said.method == "eagle3":
        ids = _table(config, "eagle_config").get("eagle_aux_hidden_state_layer_ids")
        # The model's method adds the 1: it takes the same numbers for outputs.
        return ("read", _numbers(ids)) if ids else ("default", _defaults(target))
    if target.depth is None:
        raise _Refused("needs num_hidden_layers in the target's config")
    how, found = _sglang_dflash(config, said, target.depth)
    prefixed = config.get("dspark_target_layer_ids")
    if said.method == "dspark":
        _markov(config)
        if prefixed is not None:
            return "read", _cast(prefixed)
    elif target.model_type == "muse_glimmer" and not _MUSE_OUTPUTS & set(_classes(config)):
        # This target captures before a layer, and the runner adds no 1 for other drafts.
        return how, [number - 1 for number in found]
    return how, found


_MUSE_OUTPUTS: Final = {"DFlash2DraftModel", "MuseGlimmerAssistantModel"}


def _sglang_dflash(config: Config, said: Claims, depth: int) -> tuple[How, Sequence[int]]:
    inner = _table(config, "dflash_config")
    ids = (
        inner["target_layer_ids"] if "target_layer_ids" in inner else config.get("target_layer_ids")
    )
    layers = said.body.get("num_hidden_layers")
    if type(layers) is not int or layers < 1:
        raise _Refused("needs the draft's num_hidden_layers")
    if ids is None:
        return "guess", _formula(depth, layers)
    found = _cast(ids)
    if not found:
        raise _Refused("wants target_layer_ids to be non-empty")
    if outside := [number for number in found if not 0 <= number < depth]:
        raise _Refused(f"{outside!s:.80} are out of range for {depth} layers")
    return "read", found


def _markov(config: Config) -> None:
    """DSPARK wants a Markov head: `require_markov`."""
    places = (
        config.get("dspark_markov_rank"),
        _table(config, "dspark_config").get("markov_rank"),
        _table(config, "dflash_config").get("markov_rank"),
        _table(config, "text_config").get("markov_rank"),
        config.get("markov_rank"),
    )
    rank = next((rank for rank in places if rank is not None), 0)
    if type(rank) is not int or rank < 1:
        raise _Refused(f"wants markov_rank above 0 of a DSpark draft; it is {rank!r:.40}")


# --- the authors' code -------------------------------------------------------------------------


def _dflash(config: Config, said: Claims, target: TargetFacts) -> tuple[How, Sequence[int]]:
    """`DFlashDraftModel.__init__`; its formula is computed first, whether or not it is needed."""
    if said.method not in ("dflash", "dflash2") or said.layout == "speculators":
        raise _Refused(f"knows no {said.method!r:.40} drafts in the layout {said.layout!r}")
    depth, layers = config.get("num_target_layers"), config.get("num_hidden_layers")
    if type(depth) is not int or type(layers) is not int or layers < 1:
        raise _Refused("needs num_target_layers and num_hidden_layers at top level")
    inner = config.get("dflash_config", {})
    if not isinstance(inner, Mapping):
        raise _Refused("needs dflash_config to be a table")
    guess = _formula(depth, layers)
    ids = inner.get("target_layer_ids", config.get("target_layer_ids", guess))
    if ids is guess:
        return "guess", guess
    if not isinstance(ids, list):
        raise _Refused("needs target_layer_ids to be a list")
    return "read", _numbers(ids)


_RESOLVERS: Final[tuple[tuple[str, str, _Resolver], ...]] = (
    ("vllm", "first runner", _vllm_first),
    ("vllm", "second runner", _vllm_second),
    ("sglang", "parse_dflash_draft_config", _sglang),
    ("transformers", "dflash", _dflash),
)


# --- shared ------------------------------------------------------------------------------------


def _formula(depth: int, layers: int) -> list[int]:
    """`build_target_layer_ids`, the guess of SGLang and of the authors' code."""
    if layers == 1:
        return [depth // 2]
    if layers > MOST_LAYERS:
        raise _Refused(f"would guess an id for each of {layers} layers")
    if depth < 4:
        raise _Refused(f"guesses ids by a formula that needs 4 target layers, not {depth}")
    return list(_spread(1, depth - 3, layers))


def _spread(first: int, last: int, count: int) -> Iterator[int]:
    return (round(first + i * (last - first) / (count - 1)) for i in range(count))


def _defaults(target: TargetFacts) -> list[int]:
    """EAGLE3's boundaries 2, N // 2 and N - 3, as outputs."""
    if target.depth is None:
        raise _Refused("takes its defaults from the target's depth, which isn't stated")
    return [1, target.depth // 2 - 1, target.depth - 4]


def _up(ids: Any) -> list[Any] | None:
    return [number + 1 for number in _numbers(ids)] if ids else None


def _numbers(ids: Any) -> list[Any]:
    """Numbers as Python adds them up: `True` is 1, and a fraction names no layer."""
    if not isinstance(ids, list):
        raise _Refused(f"can't take {ids!r:.60} for layer ids")
    for number in ids:
        if not isinstance(number, int | float) or (isinstance(number, float) and number % 1):
            raise _Refused(f"can't take {number!r:.60} for a layer id")
    return [int(number) for number in ids]


def _cast(ids: Any) -> list[int]:
    """Numbers as SGLang casts them: 1.7 is 1, and so is "1"."""
    if not isinstance(ids, list):
        raise _Refused(f"can't take {ids!r:.60} for layer ids")
    try:
        return [int(number) for number in ids]
    except (TypeError, ValueError):
        raise _Refused(f"can't take {ids!r:.60} for layer ids") from None


def _table(config: Config, key: str) -> Config:
    table = config.get(key)
    return table if isinstance(table, Mapping) else {}


def _classes(config: Config) -> list[str]:
    classes = config.get("architectures")
    return [str(name) for name in classes] if isinstance(classes, list) else []
