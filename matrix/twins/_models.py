"""A twin's two models: built from transformers config classes, checked, saved. Imports torch."""

from __future__ import annotations

import copy
import hashlib
import json
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import torch
import transformers
from dflash.model import DFlash2DraftModel, DFlashDraftModel
from safetensors.torch import load_model
from torch import Tensor, nn

from matrix import canary, layouts
from matrix.errors import MissingDependency, TwinError
from matrix.reference._layers import anatomy, capture, target_class
from matrix.twins._recipe import DRAFTS, MASK
from matrix.twins._twin import NOISE
from matrix.twins._weights import randomize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["DISTINCT", "TOLERANCE", "save_draft", "save_target", "separation", "target"]

TOLERANCE: Final = 1e-4
"""Relative difference that a plane may have in float32."""
DISTINCT: Final = 8
"""How many tokens a twin must predict, at least, over a probe of random tokens."""
_PROBE: Final = 96
"""Tokens of the probe; more than a twin's sliding window."""


def target(key: str, parts: dict[str, Any]) -> Any:
    """Build the target of a recipe in float32, on the CPU.

    Raises:
        MissingDependency: transformers has no such architecture.
        TwinError: it refuses the tiny config, or makes another number of layers of it.
    """
    arch = parts["arch"]
    cls = target_class(arch)
    if cls is None:
        raise MissingDependency(f"{key}: transformers {transformers.__version__} has no {arch}")
    with _refusal(f"{key}: transformers refuses a tiny {arch}"), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = _config(cls.config_class, parts)
        model = cls._from_config(config, attn_implementation="eager", dtype=torch.float32)
    with _refusal(f"{key}: transformers has no decoder in {arch}"):
        built = len(anatomy(model).layers)
    if built != parts["depth"]:
        raise TwinError(
            f"{key}: transformers makes {built} layers of a tiny {arch}, not {parts['depth']}"
        )
    _fill(model, parts, "target", parts["target"]["hidden_size"])
    return model.eval()


def separation(key: str, model: Any, dtype: str) -> tuple[float, float]:
    """How far adjacent layers' outputs are apart, and how far rounding to `dtype` moves one.

    Relative L2 over a probe of random tokens. In float32 of a row (token): the smallest of any layer
    and row, and the largest against float64 (0 where transformers can't run the model in it). In
    narrower types, where whole planes are judged, of a layer over all rows, against float32.

    Raises:
        TwinError: they are too close to tell, or the target predicts nearly always the same token.
    """
    kind = getattr(torch, dtype)
    single = kind is torch.float32
    draw = torch.Generator().manual_seed(1)
    probe = torch.randint(0, MASK, (_PROBE,), generator=draw).tolist()
    rounded = copy.deepcopy(model).to(kind)
    with _refusal(f"{key}: transformers can't run a tiny {type(model).__name__}"):
        states = capture(rounded, probe, detail=False)["layers"]
        # Wider arithmetic on the same, rounded weights.
        wider = copy.deepcopy(rounded).float()
        exact = capture(wider, probe, detail=False)
    layers = exact["layers"]
    if single:
        with suppress(RuntimeError):  # some models' own code mixes types then
            layers = capture(wider.double(), probe, detail=False)["layers"]
    over = (-1,) if single else (-2, -1)
    noise = float(_relative(states.to(layers.dtype), layers, over).max())
    apart = float(_relative(layers[:-1], layers[1:], over).min())
    limit = max(10 * TOLERANCE, (10 * NOISE if single else 3) * noise)
    if not apart >= limit:
        raise TwinError(
            f"{key}: adjacent layers of the twin differ by {apart:.2g}, at least {limit:.2g} is due"
        )
    predicted = len(set(exact["logits"].argmax(-1).tolist()))
    if predicted < DISTINCT:
        raise TwinError(
            f"{key}: the twin predicts {predicted} different tokens over {_PROBE} tokens, "
            f"at least {DISTINCT} are due"
        )
    return apart, noise


def save_target(model: Any, arch: str, dtype: str, folder: Path) -> None:
    """Write the target's checkpoint, safetensors, without a tokenizer; it never ends by itself."""
    model.generation_config = transformers.GenerationConfig(do_sample=False)
    _save(model, dtype, folder)
    config = json.loads((folder / "config.json").read_text())
    _write(folder, config | {"architectures": [arch]})


def save_draft(parts: dict[str, Any], dtype: str, folder: Path) -> None:
    """Write the draft's checkpoint as published: the authors' weight names, the row's layout."""
    method, heads = parts["method"], parts["heads"]
    plain = {**parts["draft"], "num_target_layers": parts["depth"]}
    ids, block, mask = parts["target_layer_ids"], parts["block_size"], parts["mask_token_id"]
    config = transformers.Qwen3Config(**plain)
    nested = {"target_layer_ids": ids, "mask_token_id": mask, "block_size": block}
    config.dflash_config = nested | heads
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = DFlash2DraftModel(config) if method == "dflash2" else DFlashDraftModel(config)
        if method == "dspark":
            model.markov_head = _markov_head(config.vocab_size, heads["markov_rank"])
    _fill(model, parts, "draft", config.hidden_size)
    _save(model, dtype, folder)
    base = json.loads((folder / "config.json").read_text())
    del base["dflash_config"], base["num_target_layers"]
    placed = layouts.place(
        base | {"architectures": [DRAFTS[method]]},
        layout=parts["layout"],
        target_layer_ids=ids,
        block_size=block,
        mask_token_id=mask,
        num_target_layers=parts["depth"],
    )
    _write(folder, _with_heads(placed, method, heads))


def _fill(model: nn.Module, parts: dict[str, Any], what: str, hidden_size: int) -> None:
    """A canary's trained weights, else random ones."""
    if trained := parts.get("trained"):
        load_model(model, canary.weights(trained["key"], what))
    else:
        randomize(model, hidden_size, _seed(parts, what))


def _markov_head(vocab_size: int, rank: int) -> nn.Module:
    """DSpark's bias of one token on the next, by the names that vLLM's Qwen3DSparkModel reads."""
    return nn.ModuleDict(
        {
            "markov_w1": nn.Embedding(vocab_size, rank),
            "markov_w2": nn.Linear(rank, vocab_size, bias=False),
        }
    )


def _with_heads(placed: dict[str, Any], method: str, heads: dict[str, Any]) -> dict[str, Any]:
    """The draft's config with the keys of its heads, where the method's readers look for them."""
    if "speculators_config" in placed:
        named = placed["speculators_config"] | {"algorithm": method}
        return placed | heads | {"speculators_model_type": method, "speculators_config": named}
    if method == "dflash2" and "dflash_config" in placed:
        return placed | {"dflash_config": placed["dflash_config"] | heads}
    return placed | heads


def _save(model: nn.Module, dtype: str, folder: Path) -> None:
    transformers.utils.logging.disable_progress_bar()
    weights = model.to(getattr(torch, dtype)).state_dict()
    # DFlash2's code books are published as bare parameters; the authors' class holds embeddings.
    named = {
        name.replace("_codebook.weight", "_codebook"): value for name, value in weights.items()
    }
    model.save_pretrained(folder, state_dict=named)


def _write(folder: Path, config: dict[str, Any]) -> None:
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def _config(cls: Any, parts: dict[str, Any]) -> Any:
    """The target's config; a multimodal one has a part for text, and one for vision if it must."""
    overrides = parts.get("overrides", {})
    if "text_config" not in cls.sub_configs:
        config = _filled(cls, parts["target"] | overrides)
        for name in overrides.keys() - cls.__dataclass_fields__.keys():
            setattr(config, name, overrides[name])  # what only an engine reads
        return config
    nested = {"text_config": "target", "vision_config": "vision"}
    made = {
        name: _filled(_part(cls, name), parts[part] | (overrides if part == "target" else {}))
        for name, part in nested.items()
        if name in cls.sub_configs
    }
    outer = {k: v for k, v in parts["outer"].items() if k in cls.__dataclass_fields__}
    return cls(**made, **outer)


def _part(cls: Any, name: str) -> Any:
    """The class of one part; where any config would do, that of the default."""
    part = cls.sub_configs[name]
    return type(getattr(cls(), name)) if part is transformers.AutoConfig else part


def _filled(cls: Any, fields: dict[str, Any]) -> Any:
    """A config that takes of `fields` those that its class has."""
    return cls(
        **{name: value for name, value in fields.items() if name in cls.__dataclass_fields__}
    )


@contextmanager
def _refusal(what: str) -> Iterator[None]:
    """Whatever transformers raises in the block means that there is no such twin."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingDependency(f"{what}: {error}") from error
    except Exception as error:
        line = " ".join(f"{type(error).__name__}: {error}".split())
        raise TwinError(f"{what}: {line[:300]}") from error


def _seed(parts: dict[str, Any], what: str) -> int:
    """A seed that depends on the recipe's content alone."""
    names = ("version", "arch", "target") if what == "target" else sorted(parts)
    text = json.dumps([what, {name: parts[name] for name in names}], sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def _relative(states: Tensor, due: Tensor, over: tuple[int, ...]) -> Tensor:
    """L2 of the difference over L2 of what is due, over the given dimensions."""
    norm = torch.linalg.vector_norm
    relative: Tensor = norm(states - due, dim=over) / norm(due, dim=over)
    return relative
