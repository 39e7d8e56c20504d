"""The line that starts a server: what it names, and what it refuses."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace

import msgspec
import pytest

from matrix.cli import main
from matrix.registry import Pair
from matrix.serving._serve_args import serve_args
from matrix.twins import unbuilt

PAIR = Pair(
    key="bare",
    target="o/t",
    speculative_model="o/d",
    arch="Qwen3ForCausalLM",
    num_target_layers=4,
    target_layer_ids=(1, 3),
    block_size=8,
    engine_args={
        "vllm": {"trust_remote_code": True, "async_scheduling": False, "block_size": 32},
        "sglang": {"attention_backend": "fa4"},
    },
)
TWIN = msgspec.structs.replace(
    unbuilt(PAIR), target="/twin/target", draft="/twin/draft", fingerprint="fingerprint"
)


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def line(engine: str, *, planes: bool = False, method: str = "dflash") -> list[str]:
    pair = replace(PAIR, speculative_method=method)
    return serve_args(engine, pair, TWIN, 8001, planes=planes)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_server_listens_on_this_machine_alone_under_the_weights_name(engine: str) -> None:
    words = line(engine)
    assert (option(words, "--host"), option(words, "--port")) == ("127.0.0.1", "8001")
    assert option(words, "--served-model-name") == "bare@fingerprint"
    assert "--skip-tokenizer-init" in words
    assert shlex.split(shlex.join(words)) == words


def test_vllm_counts_every_step_and_takes_the_rows_own_arguments() -> None:
    words = line("vllm")
    assert option(words, "--per-request-spec-decode-metrics") == "detailed"
    assert json.loads(option(words, "--speculative-config")) == {
        "method": "dflash",
        "model": "/twin/draft",
        "num_speculative_tokens": 7,
    }
    assert words[-4:] == ["--trust-remote-code", "--no-async-scheduling", "--block-size", "32"]


def test_sglang_drafts_or_gives_planes() -> None:
    drafting, capturing = line("sglang"), line("sglang", planes=True)
    assert option(drafting, "--speculative-draft-model-path") == "/twin/draft"
    assert option(drafting, "--speculative-num-draft-tokens") == "8"
    at = capturing.index("--return-aux-hidden-state-layer-ids")
    assert capturing[at + 1 : at + 3] == ["1", "3"]
    assert "--speculative-draft-model-path" not in capturing
    for words in (drafting, capturing):
        assert option(words, "--speculative-algorithm") == "DFLASH"
        assert words[-2:] == ["--attention-backend", "fa4"]
    assert option(line("sglang", method="dspark"), "--speculative-algorithm") == "DSPARK"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["vllm", "no-such-row"], "no-such-row"),
        (["vllm", "*"], r"\*: \d+ rows, such as .*; a server serves one"),
        (["vllm", "qwen3-4b-dflash-b16", "--port", "0"], "--port 0: want a number from 1 to 65535"),
        (["vllm", "qwen3-4b-dflash-b16", "--planes"], "--planes: a server of vllm gives no planes"),
    ],
)
def test_bad_usage_is_one_line(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["canary", "serve-args", *args]) == 2
    shown = capsys.readouterr().err
    assert re.search(said, shown)
    assert shown.count("\n") == 1
