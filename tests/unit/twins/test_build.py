from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("dflash")

from dflash.model import DFlash2DraftModel, DFlashDraftModel  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from matrix import layouts, twins  # noqa: E402
from matrix.errors import MissingDependency, TwinError  # noqa: E402
from matrix.registry import Pair, load  # noqa: E402
from matrix.twins import Twin, _models  # noqa: E402

PAIRS = load().pairs
QWEN3 = PAIRS["qwen3-8b-dflash-b16"]
SHALLOW = replace(
    QWEN3,
    key="shallow",
    num_target_layers=6,
    target_layer_ids=(1, 3, 5),
    draft_num_hidden_layers=3,
    draft_layer_types=None,
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def shallow(tmp_path_factory: pytest.TempPathFactory) -> Twin:
    return twins.build(SHALLOW, "float32", tmp_path_factory.mktemp("twins"))


def _read(folder: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((Path(folder) / "config.json").read_text())
    return config


def _files(home: str) -> dict[str, bytes]:
    folder = Path(home).parent
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def _one_of_each() -> list[Pair]:
    """A row for each architecture, drafting method and layout; others differ in numbers alone."""
    kinds: dict[tuple[str, str, str | None], Pair] = {}
    for pair in PAIRS.values():
        if not twins.lacking(pair):
            kinds.setdefault((pair.arch, pair.speculative_method, pair.layout), pair)
    return list(kinds.values())


# Known to engines, but not to transformers 5.24.
UNKNOWN = {"KimiK3ForConditionalGeneration", "MiMoV2ForCausalLM", "BailingMoeV3ForCausalLM"}
# transformers has the class, which needs a package that nothing else here needs.
NEEDS = {"InklingForConditionalGeneration": "scipy"}


@pytest.mark.parametrize("pair", _one_of_each(), ids=lambda pair: pair.key)
def test_every_kind_of_row_has_a_twin(pair: Pair, tmp_path: Path) -> None:
    if pair.arch in UNKNOWN:
        with pytest.raises(MissingDependency, match=f"has no {pair.arch}"):
            twins.build(pair, "float32", tmp_path)
        return
    needed = NEEDS.get(pair.arch)
    if needed and importlib.util.find_spec(needed) is None:
        with pytest.raises(MissingDependency, match=f"No module named '{needed}'"):
            twins.build(pair, "float32", tmp_path)
        return
    _is_the_rows(twins.build(pair, "float32", tmp_path), pair)


def _is_the_rows(twin: Twin, pair: Pair) -> None:
    assert (twin.arch, twin.depth, twin.layer_ids) == (
        pair.arch,
        pair.num_target_layers,
        pair.target_layer_ids,
    )
    assert twin.separation >= 0.02
    target = _read(twin.target)
    text = target.get("text_config", target)
    assert target["architectures"] == [pair.arch]
    assert text["vocab_size"] == 512
    assert text["hidden_size"] == twin.width
    assert text["max_position_embeddings"] >= 2048
    assert text.get("eos_token_id") is None
    config = _read(twin.draft)
    facts = layouts.read(config)
    assert facts.layout == (pair.layout or "nested")
    assert facts.ids == pair.target_layer_ids
    assert (facts.block_size, facts.mask_token_id) == (twin.block_size, 511)
    weights = load_file(Path(twin.draft) / "model.safetensors")
    assert weights["fc.weight"].shape == (twin.width, len(twin.layer_ids) * twin.width)
    heads = {name.split(".")[0] for name in weights} - {"fc", "hidden_norm", "layers", "norm"}
    due = {"dflash": set(), "dflash2": {"candidate_selector"}, "dspark": {"markov_head"}}
    assert heads == due[pair.speculative_method]
    speculators = config.get("speculators_model_type", pair.speculative_method)
    assert speculators == pair.speculative_method


def test_the_authors_class_loads_a_dflash2_draft(tmp_path: Path) -> None:
    row = replace(SHALLOW, speculative_method="dflash2", draft_class="DFlash2DraftModel")
    twin = twins.build(row, "float32", tmp_path)
    draft, report = DFlash2DraftModel.from_pretrained(twin.draft, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    stored = load_file(Path(twin.draft) / "model.safetensors")
    book = draft.candidate_selector.predecessor_codebook.weight
    assert torch.equal(book, stored["candidate_selector.predecessor_codebook"])
    assert _read(twin.draft)["architectures"] == ["DFlash2DraftModel"]


@pytest.mark.parametrize(("layout", "drafts"), [("flat", 8), ("speculators", 7)])
def test_a_dspark_draft_counts_as_its_format_does(layout: Any, drafts: int, tmp_path: Path) -> None:
    row = replace(SHALLOW, speculative_method="dspark", layout=layout, block_size=8)
    twin = twins.build(row, "float32", tmp_path)
    assert (twin.drafts, twin.block_size) == (drafts, 8)
    config = _read(twin.draft)
    assert config["markov_rank"] == 16
    assert config["architectures"] == ["Qwen3DSparkModel"]
    weights = load_file(Path(twin.draft) / "model.safetensors")
    assert weights["markov_head.markov_w1.weight"].shape == (512, 16)
    assert weights["markov_head.markov_w2.weight"].shape == (512, 16)


@pytest.mark.parametrize(
    ("key", "first", "period"),
    [
        ("qwen3-coder-next-dflash", ["linear_attention"] * 3 + ["full_attention"], 4),
        ("synthetic-qwen3.5-text", ["linear_attention"] * 3 + ["full_attention"], 4),
        ("gpt-oss-20b-dflash", ["sliding_attention", "full_attention"], 2),
        ("laguna-xs-2.1-dflash", ["full_attention"] + ["sliding_attention"] * 3, 4),
        ("lfm2.5-1.2b-instruct-dflash", ["conv", "conv", "full_attention"], 3),
    ],
)
def test_the_layer_pattern_is_real(key: str, first: list[str], period: int, tmp_path: Path) -> None:
    config = _read(twins.build(PAIRS[key], "float32", tmp_path).target)
    kinds = config["layer_types"]
    assert kinds[:period] == first
    assert kinds[:-period] == kinds[period:]
    if "sliding_attention" in kinds:
        assert config["sliding_window"] == 64


def test_the_same_recipe_gives_the_same_bytes(shallow: Twin, tmp_path: Path) -> None:
    torch.manual_seed(123)
    again = twins.build(replace(SHALLOW, key="named-otherwise"), "float32", tmp_path)
    assert again.fingerprint == shallow.fingerprint
    assert _files(again.target) == _files(shallow.target)


def test_building_leaves_the_random_state_alone(tmp_path: Path) -> None:
    torch.manual_seed(5)
    due = torch.rand(3)
    torch.manual_seed(5)
    twins.build(SHALLOW, "float32", tmp_path)
    assert torch.equal(torch.rand(3), due)


def test_what_changes_the_bytes_changes_the_fingerprint(shallow: Twin, tmp_path: Path) -> None:
    rows = [
        (replace(SHALLOW, target_layer_ids=(0, 3, 5)), "float32"),
        (replace(SHALLOW, num_target_layers=7), "float32"),
        (replace(SHALLOW, layout="flat"), "float32"),
        (SHALLOW, "bfloat16"),
    ]
    found = {twins.build(pair, dtype, tmp_path).fingerprint for pair, dtype in rows}
    assert len(found | {shallow.fingerprint}) == 5


def test_a_twin_is_built_once(shallow: Twin) -> None:
    root = Path(shallow.target).parent.parent
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert twins.build(SHALLOW, "float32", root) == shallow
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


@pytest.mark.parametrize("name", ["target/model.safetensors", "draft/config.json", "twin.json"])
def test_a_damaged_twin_is_built_anew(name: str, shallow: Twin, tmp_path: Path) -> None:
    home = Path(twins.build(SHALLOW, "float32", tmp_path).target).parent
    whole = (home / name).read_bytes()
    (home / name).write_bytes(whole[: len(whole) // 2])
    assert _files(twins.build(SHALLOW, "float32", tmp_path).target) == _files(shallow.target)


def test_norm_weights_all_differ(shallow: Twin) -> None:
    for folder, count in ((shallow.target, 6 * 4 + 1), (shallow.draft, 3 * 4 + 2)):
        weights = load_file(Path(folder) / "model.safetensors")
        norms = [weight for name, weight in weights.items() if "norm" in name]
        assert len(norms) == count
        assert all(norm.std() > 0.1 for norm in norms)
        same = [
            a for i, a in enumerate(norms) for b in norms[:i] if a.shape == b.shape and a.equal(b)
        ]
        assert not same


def test_narrow_types_are_stored_and_their_noise_is_known(tmp_path: Path) -> None:
    twin = twins.build(QWEN3, "bfloat16", tmp_path)
    assert 0 < 3 * twin.noise <= twin.separation
    for folder in (twin.target, twin.draft):
        weights = load_file(Path(folder) / "model.safetensors")
        assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}
        assert _read(folder)["dtype"] == "bfloat16"


def test_a_deep_twin_s_own_rounding_widens_the_tolerance(
    shallow: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 0 < shallow.noise < 1e-5, "against float64; 0 says that it was not measured"
    built = _models.target("shallow", twins.recipe(SHALLOW))
    monkeypatch.setattr(_models, "NOISE", 1e6)
    with pytest.raises(TwinError, match="adjacent layers of the twin differ by"):
        _models.separation("shallow", built, "float32")


def test_the_authors_class_loads_the_draft(shallow: Twin) -> None:
    draft, report = DFlashDraftModel.from_pretrained(shallow.draft, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert tuple(draft.target_layer_ids) == shallow.layer_ids
    assert (draft.block_size, draft.mask_token_id) == (shallow.block_size, 511)


def test_the_stored_target_is_the_one_that_was_checked(shallow: Twin) -> None:
    target, report = transformers.Qwen3ForCausalLM.from_pretrained(
        shallow.target, output_loading_info=True
    )
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    built = _models.target("shallow", twins.recipe(SHALLOW))
    stored = dict(target.named_parameters())
    for name, parameter in built.named_parameters():
        assert torch.equal(parameter, stored[name]), name


def test_a_target_goes_on_generating(shallow: Twin) -> None:
    target = transformers.Qwen3ForCausalLM.from_pretrained(shallow.target)
    out = target.generate(torch.tensor([[3, 1, 4, 1, 5]]), max_new_tokens=40)[0, 5:].tolist()
    assert len(out) == 40
    assert max(out.count(token) for token in out) < 20
    assert any(a != b for a, b in pairwise(out[20:]))


def test_layers_that_add_nothing_are_refused() -> None:
    model = _models.target("flat", twins.recipe(SHALLOW))
    _models.separation("flat", model, "float32")
    layer = model.model.layers[3]
    for matrix in (layer.self_attn.o_proj, layer.mlp.down_proj):
        matrix.weight.data.zero_()
    with pytest.raises(TwinError, match=r"flat: adjacent layers of the twin differ by 0, at least"):
        _models.separation("flat", model, "float32")


def test_layers_that_add_less_than_rounding_are_refused() -> None:
    model = _models.target("faint", twins.recipe(SHALLOW))
    layer = model.model.layers[3]
    for matrix in (layer.self_attn.o_proj, layer.mlp.down_proj):
        matrix.weight.data.mul_(0.05)
    _models.separation("faint", model, "float32")
    with pytest.raises(TwinError, match="faint: adjacent layers"):
        _models.separation("faint", model, "bfloat16")


def test_a_target_that_says_one_token_is_refused() -> None:
    model = _models.target("dull", twins.recipe(SHALLOW))
    model.lm_head.weight.data[1:].zero_()
    with pytest.raises(TwinError, match=r"dull: the twin predicts \d different tokens over 96"):
        _models.separation("dull", model, "float32")


def test_nonfinite_layers_are_refused() -> None:
    model = _models.target("nan", twins.recipe(SHALLOW))
    model.model.layers[2].mlp.down_proj.weight.data[0, 0] = float("nan")
    with pytest.raises(TwinError, match="nan: adjacent layers"):
        _models.separation("nan", model, "float32")


@pytest.mark.parametrize(
    ("change", "dtype", "error", "said"),
    [
        (
            {"arch": "NoSuchForCausalLM"},
            "float32",
            MissingDependency,
            r"transformers \S+ has no NoSu",
        ),
        ({"arch": "GenerationMixin"}, "float32", MissingDependency, "has no GenerationMixin"),
        ({"arch": "BertModel"}, "float32", TwinError, "shallow: transformers"),
        ({}, "int8", TwinError, "no twin in dtype 'int8'"),
    ],
)
def test_what_cannot_be_built_is_refused(
    change: dict[str, Any], dtype: str, error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=said):
        twins.build(replace(SHALLOW, **change), dtype, tmp_path)
    assert list(tmp_path.iterdir()) == []
