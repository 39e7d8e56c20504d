from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("dflash")

from matrix import twins  # noqa: E402
from matrix.errors import ReferenceFailed  # noqa: E402
from matrix.reference._layers import anatomy, capture  # noqa: E402
from matrix.registry import Pair  # noqa: E402
from matrix.twins import _models  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

TOKENS = [17, 3, 400, 3, 250, 9, 88, 501, 2, 2, 64, 310]
DEPTH = 5

ARCHS = (
    "Qwen3ForCausalLM",
    "LlamaForCausalLM",
    "Qwen3MoeForCausalLM",
    "Qwen3NextForCausalLM",
    "Qwen3_5ForCausalLM",
    "Qwen3_5MoeForConditionalGeneration",
    "GptOssForCausalLM",
    "LagunaForCausalLM",
)
# Their branches aren't of the plain shape; their planes must be right all the same.
OTHERS = (
    "Gemma4ForConditionalGeneration",
    "Gemma4UnifiedForConditionalGeneration",
    "GlmMoeDsaForCausalLM",
    "HunYuanVLForConditionalGeneration",
    "KimiK25ForConditionalGeneration",
    "Lfm2ForCausalLM",
    "Lfm2MoeForCausalLM",
    "LongcatFlashForCausalLM",
    "MiniMaxM2ForCausalLM",
    "MiniMaxM3SparseForConditionalGeneration",
    "MuseGlimmerForConditionalGeneration",
    "NemotronHForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3VLForConditionalGeneration",
)


@pytest.fixture(scope="module")
def target() -> Callable[[str], Any]:
    built: dict[str, Any] = {}

    def get(arch: str) -> Any:
        if arch not in built:
            row = Pair("row", "a/target", "a/draft", arch, DEPTH, (1, 3))
            built[arch] = _models.target("row", twins.recipe(row))
        return built[arch]

    return get


def _close(found: Any, due: Any) -> bool:
    return bool(torch.allclose(found, due, rtol=1e-4, atol=1e-5))


@pytest.mark.parametrize("arch", [*ARCHS, *OTHERS])
def test_planes_are_what_transformers_calls_hidden_states(
    arch: str, target: Callable[[str], Any]
) -> None:
    model = target(arch)
    found = capture(model, TOKENS, detail=False)
    with torch.inference_mode():
        out = model(input_ids=torch.tensor([TOKENS]), output_hidden_states=True, use_cache=False)
    hidden = [state[0] for state in out.hidden_states]
    assert len(hidden) == DEPTH + 1
    assert found["layers"].shape == (DEPTH, len(TOKENS), 64)
    assert torch.equal(found["embedding"], hidden[0])
    for index in range(DEPTH - 1):
        assert torch.equal(found["layers"][index], hidden[index + 1]), index
    assert torch.equal(found["normed"], hidden[-1])
    assert not _close(found["layers"][-1], hidden[-1])
    assert torch.equal(found["logits"], out.logits[0])


@pytest.mark.parametrize("arch", ARCHS)
def test_branches_add_up_to_the_stream(arch: str, target: Callable[[str], Any]) -> None:
    model = target(arch)
    found = capture(model, TOKENS, detail=True)
    entering = torch.cat([found["embedding"][None], found["layers"][:-1]])
    for branch in ("attention", "mlp"):
        assert found[branch].shape == found["layers"].shape
        assert (found[branch].flatten(1).norm(dim=1) > 0.1).all()
    assert _close(entering + found["attention"] + found["mlp"], found["layers"])


@pytest.mark.parametrize("arch", ARCHS)
def test_normed_states_are_each_norms_own(arch: str, target: Callable[[str], Any]) -> None:
    model = target(arch)
    entered: list[Any] = []
    hooks = [
        layer.input_layernorm.register_forward_hook(lambda _m, _a, out: entered.append(out[0]))
        for layer in anatomy(model).layers
    ]
    found = capture(model, TOKENS, detail=True)
    for hook in hooks:
        hook.remove()
    for index, state in enumerate(entered[1:DEPTH]):
        assert _close(found["next_normed"][index], state), index
    assert _close(found["next_normed"][-1], found["normed"])
    assert _close(found["final_normed"][-1], found["normed"])
    with torch.inference_mode():
        assert _close(found["final_normed"][1], anatomy(model).norm(found["layers"][1]))


def test_a_layer_equals_a_forward_written_by_hand(target: Callable[[str], Any]) -> None:
    body = target("Qwen3ForCausalLM").model
    length = len(TOKENS)
    with torch.inference_mode():
        stream = body.embed_tokens(torch.tensor([TOKENS]))
        places = torch.arange(length)[None]
        mask = torch.full((length, length), float("-inf")).triu(1)[None, None]
        planes = []
        for layer in body.layers:
            attended, _ = layer.self_attn(
                hidden_states=layer.input_layernorm(stream),
                position_embeddings=body.rotary_emb(stream, places),
                attention_mask=mask,
            )
            stream = stream + attended
            stream = stream + layer.mlp(layer.post_attention_layernorm(stream))
            planes.append(stream[0])
    found = capture(target("Qwen3ForCausalLM"), TOKENS, detail=False)
    assert _close(found["layers"], torch.stack(planes))


def _hooks(model: Any) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_no_hook_stays_behind(target: Callable[[str], Any]) -> None:
    model = target("Qwen3ForCausalLM")
    before = _hooks(model)  # transformers may keep some of its own
    capture(model, TOKENS, detail=True)
    assert _hooks(model) == before
    with pytest.raises(IndexError):
        capture(model, [100_000], detail=True)
    assert _hooks(model) == before


def test_planes_are_copies(target: Callable[[str], Any]) -> None:
    model = target("Qwen3ForCausalLM")
    first = capture(model, TOKENS, detail=False)["layers"].clone()
    kept = capture(model, TOKENS, detail=False)["layers"]
    capture(model, [token + 1 for token in TOKENS], detail=False)
    np.testing.assert_array_equal(kept.numpy(), first.numpy())


def test_a_model_without_layers_is_named() -> None:
    class Bare(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(3, 3)

        def get_decoder(self) -> torch.nn.Module:
            return self

    with pytest.raises(ReferenceFailed, match="Bare: no layers among the decoder's embedding"):
        anatomy(Bare())
