"""Layer states of a transformers model, by forward hooks on its decoder layers.

Never by `output_hidden_states`: its last entry is normed. Modules are found by the names that
transformers models use for them, so that one function serves every architecture. Imports torch:
for worker processes only.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
import transformers
from torch import Tensor, nn

from matrix.errors import ReferenceFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Anatomy", "anatomy", "capture", "target_class"]

# Architectures that transformers spells otherwise than the checkpoints' configs.
_SPELT: Final = {"KimiK25ForConditionalGeneration": "Kimi_K25ForConditionalGeneration"}

_LAYERS: Final = ("layers", "h", "blocks")
_FINAL_NORM: Final = ("norm", "norm_f", "final_layernorm", "embedding_norm")
_INPUT_NORM: Final = ("input_layernorm", "operator_norm", "norm", "ln_1")
_ATTENTION: Final = ("self_attn", "linear_attn", "attn", "attention", "conv", "mixer")
_MLP: Final = ("mlp", "block_sparse_moe", "feed_forward", "ffn")
# Layers that norm a branch once more before they add it; the norm's output is the branch.
_SANDWICH: Final = ("pre_feedforward_layernorm",)
_ATTENTION_OUT: Final = ("post_attention_layernorm",)
_MLP_OUT: Final = ("post_feedforward_layernorm",)


@dataclass(frozen=True)
class Anatomy:
    """The modules of a target that capture is about."""

    layers: tuple[nn.Module, ...]
    norm: nn.Module
    """The final norm."""
    input_norms: tuple[nn.Module | None, ...]
    """The norm that each layer applies to what enters it."""
    attention: tuple[nn.Module | None, ...]
    """Per layer, the module whose output is the attention branch."""
    mlp: tuple[nn.Module | None, ...]
    """Per layer, the module whose output is the MLP branch."""


def target_class(arch: str) -> Any:
    """The class that transformers has for an architecture; `None` when it has none."""
    cls = getattr(transformers, _SPELT.get(arch, arch), None)
    return cls if hasattr(cls, "config_class") else None


def anatomy(model: nn.Module) -> Anatomy:
    """Find a target's decoder layers, norms and branches.

    Raises:
        ReferenceFailed: the model has no list of layers, or no final norm, under a known name.
    """
    decoder = model.get_decoder()
    layers = _child(decoder, _LAYERS)
    norm = _child(decoder, _FINAL_NORM)
    if layers is None or norm is None:
        have = ", ".join(name for name, _ in decoder.named_children())
        what = "layers" if layers is None else "final norm"
        raise ReferenceFailed(f"{type(model).__name__}: no {what} among the decoder's {have}")
    return Anatomy(
        layers=tuple(layers),
        norm=norm,
        input_norms=tuple(_first(_child(layer, _INPUT_NORM)) for layer in layers),
        attention=tuple(_branch(layer, _ATTENTION, _ATTENTION_OUT) for layer in layers),
        mlp=tuple(_branch(layer, _MLP, _MLP_OUT) for layer in layers),
    )


def capture(model: nn.Module, tokens: Sequence[int], *, detail: bool) -> dict[str, Tensor]:
    """Run one forward without cache over T `tokens`, and keep what `States` holds, in its words.

    Tensors keep the model's dtype. A layer without an attention or an MLP of its own has zeros
    there.
    """
    parts = anatomy(model)
    kept: dict[str, dict[int, Tensor]] = {}
    with torch.inference_mode():
        with ExitStack() as hooks:
            hooks.enter_context(_entering(kept, "embedding", parts.layers[0]))
            hooks.enter_context(_leaving(kept, "layers", parts.layers))
            hooks.enter_context(_leaving(kept, "normed", (parts.norm,)))
            if detail:
                hooks.enter_context(_leaving(kept, "attention", parts.attention))
                hooks.enter_context(_leaving(kept, "mlp", parts.mlp))
            logits = model(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits[0]
        states = torch.stack([kept["layers"][index] for index in range(len(parts.layers))])
        found = {
            "layers": states,
            "logits": logits,
            "embedding": kept["embedding"][0],
            "normed": kept["normed"][0],
        }
        return found | (_details(parts, states, kept) if detail else {})


def _details(
    parts: Anatomy, states: Tensor, kept: dict[str, dict[int, Tensor]]
) -> dict[str, Tensor]:
    """What a wrong capture may have delivered instead, `[N, T, H]` each."""
    following = [*parts.input_norms[1:], parts.norm]
    next_normed = [
        state if norm is None else norm(state)
        for norm, state in zip(following, states, strict=True)
    ]
    zeros = torch.zeros_like(states[0])
    branches = {
        name: torch.stack([kept.get(name, {}).get(i, zeros) for i in range(len(states))])
        for name in ("attention", "mlp")
    }
    return branches | {
        "final_normed": parts.norm(states),
        "next_normed": torch.stack(next_normed),
    }


@contextmanager
def _leaving(
    kept: dict[str, dict[int, Tensor]], name: str, modules: Sequence[nn.Module | None]
) -> Iterator[None]:
    """Keep what each module returns, under `name` and its position."""

    def hook(index: int) -> Any:
        def keep(module: nn.Module, args: Any, output: Any) -> None:
            kept.setdefault(name, {})[index] = _rows(output)

        return keep

    handles = [
        module.register_forward_hook(hook(index))
        for index, module in enumerate(modules)
        if module is not None
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _entering(kept: dict[str, dict[int, Tensor]], name: str, module: nn.Module) -> Iterator[None]:
    """Keep what enters a layer, under `name`."""

    def keep(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        kept[name] = {0: _rows(args or kwargs["hidden_states"])}

    handle = module.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def _rows(output: Any) -> Tensor:
    """`[T, H]` of a module's input or output; a copy, since models reuse buffers."""
    tensor = output[0] if isinstance(output, tuple | list) else output
    return tensor.detach().reshape(-1, tensor.shape[-1]).clone()


def _child(module: nn.Module, names: Sequence[str]) -> Any:
    return next(
        (found for name in names if (found := getattr(module, name, None)) is not None), None
    )


def _branch(layer: nn.Module, names: Sequence[str], sandwiched: Sequence[str]) -> Any:
    return _first(_child(layer, sandwiched if _child(layer, _SANDWICH) is not None else names))


def _first(module: Any) -> Any:
    """Of a layer that is two in one (LongCat's), what its first half has."""
    return module[0] if isinstance(module, nn.ModuleList) else module
