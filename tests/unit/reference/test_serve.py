from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("dflash")

from matrix.errors import MissingDependency, ReferenceFailed  # noqa: E402
from matrix.reference import States, _serve  # noqa: E402
from matrix.reference._models import fingerprint  # noqa: E402
from matrix.reference._serve import ReferenceServer  # noqa: E402
from matrix.registry import Pair, load  # noqa: E402
from matrix.twins import Twin  # noqa: E402

PAIRS = load().pairs
ROW = replace(
    PAIRS["qwen3-8b-dflash-b16"], key="shallow", num_target_layers=6, target_layer_ids=(1, 3, 5)
)
TOKENS = [17, 3, 400, 3, 250, 9, 88]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReferenceServer:
    monkeypatch.setenv("DFLASH_MATRIX_CACHE", str(tmp_path))
    return ReferenceServer()


@pytest.fixture
def twin(server: ReferenceServer) -> Twin:
    return server.twin(ROW, "float32")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The sequences that were really run through a model."""
    seen: list[list[int]] = []
    real = _serve.capture

    def counted(model: Any, tokens: list[int], *, detail: bool) -> Any:
        seen.append(tokens)
        return real(model, tokens, detail=detail)

    monkeypatch.setattr(_serve, "capture", counted)
    return seen


def test_it_says_what_it_is_made_of(server: ReferenceServer) -> None:
    assert server.identify()["torch"] == torch.__version__
    assert set(server.identify()) == {"python", "torch", "transformers"}


def test_rows_cross_the_pipe_whole() -> None:
    hints = get_type_hints(ReferenceServer.twin)
    assert hints == {"pair": Pair, "dtype": str, "return": Twin}
    for pair in PAIRS.values():
        sent = msgspec.msgpack.encode(pair)
        assert msgspec.msgpack.decode(sent, type=hints["pair"]) == pair


def test_states_have_detail_when_asked(server: ReferenceServer, twin: Twin) -> None:
    plain = States.from_arrays(server.states(twin.target, TOKENS, "float32", False))
    full = States.from_arrays(server.states(twin.target, TOKENS, "float32", True))
    assert (plain.depth, plain.width, plain.tokens) == (6, twin.width, tuple(TOKENS))
    assert plain.attention is None
    assert full.attention is not None
    assert full.attention.shape == full.layers.shape == (6, len(TOKENS), twin.width)
    np.testing.assert_array_equal(plain.layers, full.layers)
    assert plain.logits.shape == (len(TOKENS), twin.vocab_size)


def test_bfloat16_states_say_so(server: ReferenceServer, twin: Twin) -> None:
    exact = server.states(twin.target, TOKENS, "float32", False)
    narrow = server.states(twin.target, TOKENS, "bfloat16", False)
    assert (exact.layers.dtype, narrow.layers.dtype) == ("float32", "bfloat16")
    assert narrow.layers.numpy().dtype == np.float32
    error = np.linalg.norm(narrow.layers.numpy() - exact.layers.numpy())
    assert 0 < error / np.linalg.norm(exact.layers.numpy()) < 0.05


def test_a_sequence_is_run_once(
    server: ReferenceServer, twin: Twin, runs: list[list[int]], tmp_path: Path
) -> None:
    first = server.states(twin.target, TOKENS, "float32", True)
    assert ReferenceServer().states(twin.target, TOKENS, "float32", True) == first
    assert len(runs) == 1
    moved = shutil.copytree(twin.target, tmp_path / "elsewhere")
    assert server.states(str(moved), TOKENS, "float32", True) == first
    assert len(runs) == 1
    server.states(twin.target, TOKENS, "float32", False)
    server.states(twin.target, TOKENS[:-1], "float32", True)
    server.states(twin.target, TOKENS, "bfloat16", True)
    assert len(runs) == 4


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_a_damaged_cache_is_run_again(
    keep: float, server: ReferenceServer, twin: Twin, runs: list[list[int]], tmp_path: Path
) -> None:
    first = server.states(twin.target, TOKENS, "float32", False)
    (path,) = (tmp_path / "reference").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole)) - 1] + b"\x00" * 3)
    assert server.states(twin.target, TOKENS, "float32", False) == first
    assert len(runs) == 2
    assert path.read_bytes() == whole


def test_greedy_tokens_are_each_rows_best(server: ReferenceServer, twin: Twin) -> None:
    run = server.greedy(twin.target, TOKENS, 12, [], "float32")
    assert len(run.tokens) == len(run.gaps) == 12
    whole = server.states(twin.target, TOKENS + run.tokens, "float32", False)
    rows = whole.logits.numpy()[len(TOKENS) - 1 : -1]
    assert rows.argmax(-1).tolist() == run.tokens
    ordered = np.sort(rows, axis=-1)
    np.testing.assert_allclose(run.gaps, ordered[:, -1] - ordered[:, -2], atol=1e-4)


def test_greedy_ends_after_a_stop_token(server: ReferenceServer, twin: Twin) -> None:
    run = server.greedy(twin.target, TOKENS, 12, [], "float32")
    stop = run.tokens[4]
    due = run.tokens[: run.tokens.index(stop) + 1]
    stopped = server.greedy(twin.target, TOKENS, 12, [stop], "float32")
    assert stopped.tokens == due
    assert len(stopped.gaps) == len(due)


def test_a_changed_weight_is_another_model(
    server: ReferenceServer, twin: Twin, tmp_path: Path
) -> None:
    copied = str(shutil.copytree(twin.target, tmp_path / "copy"))
    assert fingerprint(copied) == fingerprint(twin.target)
    before = server.states(copied, TOKENS, "float32", False)
    path = Path(copied) / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-2] ^= 0x20
    path.write_bytes(data)
    assert fingerprint(copied) != fingerprint(twin.target)
    assert server.states(copied, TOKENS, "float32", False).logits != before.logits


def test_at_most_two_models_are_held(server: ReferenceServer, twin: Twin) -> None:
    first = server._models.get(twin.target, "float32")
    second = server._models.get(twin.target, "bfloat16")
    assert server._models.get(twin.target, "float32") is first
    server._models.get(twin.target, "float16")
    assert server._models.get(twin.target, "float32") is first
    assert server._models.get(twin.target, "bfloat16") is not second


def test_what_cannot_be_said_is_an_error(server: ReferenceServer, tmp_path: Path) -> None:
    with pytest.raises(ReferenceFailed, match=r"nowhere: no folder with config\.json"):
        server.states(str(tmp_path / "nowhere"), TOKENS, "float32", False)
    with pytest.raises(ReferenceFailed, match="no tokens to run"):
        server.states(str(tmp_path), [], "float32", False)
    with pytest.raises(MissingDependency, match="has no NoSuchForCausalLM"):
        server.twin(replace(ROW, arch="NoSuchForCausalLM"), "float32")
