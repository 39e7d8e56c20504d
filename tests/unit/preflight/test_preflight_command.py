"""`preflight` and `new` as a user runs them: exit codes, one line for bad input, rows that load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from config_samples import CONFIGS, GOOD, configs, put
from loopback_hub import safetensors

from matrix.cli import main
from matrix.preflight import _cli, edition
from matrix.registry import load


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No engine of this environment is asked, and no `pyproject.toml` is found."""
    monkeypatch.setattr(_cli, "installed", dict)
    monkeypatch.chdir(tmp_path)


def sides(name: str) -> list[str]:
    folder = next(CONFIGS.glob(f"*/{name}"))
    return [str(folder / "target.json"), str(folder / "draft.json")]


def written(folder: Path, config: Any, name: str = "draft") -> Path:
    (folder / name).mkdir()
    text = config if isinstance(config, str) else json.dumps(config)
    (folder / name / "config.json").write_text(text)
    return folder / name


# --- preflight ---------------------------------------------------------------------------------


def test_0_for_a_pair_that_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", *sides("nested")]) == 0
    out = capsys.readouterr().out
    assert "ids     1,9,17,25,33, from dflash_config.target_layer_ids (outputs)" in out
    assert "vllm          starts since 0.22.0" in out
    assert "second runner (model): read 1,9,17,25,33" in out
    assert out.splitlines()[-1] == "19 pass, 0 fail, 0 warn, 1 skip"


@pytest.mark.parametrize(
    ("name", "engine", "code"),
    [
        ("wrong-pair", [], 1),
        ("last-layer", [], 0),
        ("last-layer", ["--engine", "sglang"], 1),
        ("last-layer", ["--engine", "sglang==0.5.23"], 1),
        ("last-layer", ["--engine", "vllm==0.32.0"], 0),
        # The first release with DFlash misses the 1, and has no such class of target.
        ("dflash2", ["--engine", "vllm==0.24.0"], 1),
        ("dflash2", ["--engine", "vllm==0.28.0"], 0),
    ],
)
def test_1_for_a_clause_that_fails(name: str, engine: list[str], code: int) -> None:
    assert main(["preflight", *sides(name), *engine]) == code


def test_json_has_the_stated_shape(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", *sides("speculators"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown.keys() == {
        *("target", "draft", "layout", "method", "edition", "ids", "clauses", "engines")
    }
    assert (shown["layout"], shown["method"]) == ("speculators", "dflash")
    assert shown["edition"] == edition(configs("speculators")[1])
    assert shown["ids"]["value"] == [1, 9, 17, 25, 33]
    keys = {"clause", "outcome", "fault", "expected", "actual", "message"}
    assert all(clause.keys() == keys for clause in shown["clauses"])
    vllm = shown["engines"]["vllm"]
    assert (vllm["draft_class"], vllm["first"]) == ("DFlashDraftModel", vllm["starts"][0])
    assert {reading["by"] for reading in vllm["resolvers"]} == {"model"}
    assert shown["engines"]["sglang"]["starts"] == []
    assert shown["engines"]["sglang"]["releases"][-1]["why"] == "reads no speculators format"


def test_one_engine_in_view_hides_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", *sides("nested"), "--engine", "sglang", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["engines"].keys() == {"sglang"}


def test_folders_and_headers_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, draft = configs("nested")
    folders = [written(tmp_path, target, "target"), written(tmp_path, draft)]
    (folders[0] / "tokenizer_config.json").write_text(
        '{"added_tokens_decoder": {"151669": {"content": "<x>"}}, "pad_token": "<x>"}'
    )
    (folders[1] / "model.safetensors").write_bytes(
        safetensors({"fc.weight": ("BF16", [2560, 10240])})
    )
    assert main(["preflight", *map(str, folders)]) == 1
    out = capsys.readouterr().out
    assert "fail  CFG-FC           fc.weight takes 10240 features, 5 planes give 12800" in out
    assert "warn  CFG-MASK-ROLE    151669 is also the target's pad_token" in out


def test_what_a_config_holds_reaches_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, draft = configs("nested")
    draft = put(draft, "architectures", ["\x1b[31mDFlash\ud800\u202e"])
    folders = [written(tmp_path, target, "target"), written(tmp_path, draft)]
    assert main(["preflight", *map(str, folders)]) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b[31mDFlash\\ud800\\u202e" in out


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            '{\n "a": 1,\n}',
            "draft/config.json: line 3 column 1: not JSON: a comma before a closing",
        ),
        ("[]", "draft/config.json: holds list; it should be a table, {...}"),
        ({"taps": [1]}, "no known draft config layout: none of dflash_config"),
        ({"dflash_config": [1]}, "dflash_config is [1]; it should be a table"),
        ("{" + " " * (4 << 20) + "}", "config.json: larger than 4194304 bytes"),
    ],
)
def test_2_for_a_draft_that_can_t_be_read(
    config: Any, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draft = written(tmp_path, config)
    assert main(["preflight", sides("nested")[0], str(draft)]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["nowhere", "a/b"], "'nowhere': no such folder or file, and no hub id"),
        (["nowhere/config.json", "a/b"], "no such folder or file"),
        ([".", "a/b"], "has no config.json"),
        (["TARGET", "DRAFT", "--engine", "tgi"], "--engine tgi: want one of vllm, sglang"),
        (["TARGET", "DRAFT", "--engine", "vllm=="], "--engine vllm==: want one of"),
        (["TARGET", "DRAFT", "--engine", "vllm==9"], "vllm==9: not scanned; known are 0.20.0"),
        (["TARGET", "DRAFT", "--engine", "vllm==x"], "vllm==x: not scanned"),
        (["TARGET", "DRAFT", "--python", "vllm=/no"], "--python vllm=/no: want ENGINE=PATH"),
    ],
)
def test_2_for_bad_usage(given: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    named = dict(zip(("TARGET", "DRAFT"), sides("nested"), strict=True))
    assert main(["preflight", *(named.get(word, word) for word in given)]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


def test_a_file_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draft = tmp_path / "draft"
    (draft / "config.json").mkdir(parents=True)
    assert main(["preflight", sides("nested")[0], str(draft)]) == 2
    assert "not a plain file" in capsys.readouterr().err


# --- new ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in GOOD if name != "eagle3"])
def test_a_row_is_ready_to_be_loaded(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", *sides(name)]) == 0
    file = tmp_path / "new.toml"
    file.write_text(capsys.readouterr().out)
    own = [pair for pair in load((file,)).pairs.values() if pair.confidence == "config"]
    row = own[-1]
    target, draft = configs(name)
    assert row.arch == target["architectures"][0]
    assert row.kind == "real"
    if name == "multi-stream":
        assert row.width_factor == 4
    if name == "speculators":
        assert (row.id_semantics, row.target_layer_ids) == ("boundary", (1, 9, 17, 25, 33))
        assert row.draft_vocab_size == draft["draft_vocab_size"]
    if name == "dspark-anchor-first":
        assert (row.speculative_method, row.drafts) == ("dspark", 7)
        assert row.draft_class == "Qwen3DSparkModel"


def test_a_name_that_is_taken_gets_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, draft = configs("nested")
    odd = tmp_path / 'Ünlikely "name"\x7f'
    odd.mkdir()
    folder = written(tmp_path, draft, "qwen3-4b-dflash-b16")
    (odd / "config.json").write_text(json.dumps(target))
    assert main(["new", str(odd), str(folder)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# the registry has a row 'qwen3-4b-dflash-b16' already\n[[pair]]\n")
    assert 'key = "qwen3-4b-dflash-b16-2"' in out


@pytest.mark.parametrize(
    ("change", "side", "words"),
    [
        ({"dflash_config.target_layer_ids": ...}, "draft", "states no layer ids, and a row needs"),
        ({"dflash_config.target_layer_ids": [1, 40]}, "draft", "[40] are not in 0..35"),
        ({"block_size": "many"}, "draft", "block_size is 'many'; it should be a whole number"),
        ({"architectures": []}, "target", "states no architectures, and a row needs it"),
        ({"num_hidden_layers": 0}, "target", "states no num_hidden_layers"),
    ],
)
def test_2_for_what_makes_no_row(
    change: dict[str, Any],
    side: str,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = dict(zip(("target", "draft"), configs("nested"), strict=True))
    for key, value in change.items():
        both[side] = put(both[side], key, value)
    folders = [str(written(tmp_path, both[name], name)) for name in ("target", "draft")]
    assert main(["new", *folders]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
