"""Our models of the engines' resolvers against the engines' own functions, where one is installed.

An engine is found in this interpreter, or in the one that `DFLASH_MATRIX_PYTHON_<ENGINE>` names.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from config_samples import GOOD, configs, put

from matrix.layouts import claims, read_target
from matrix.preflight import Side, _installed, examine, judge
from matrix.preflight._installed import with_installed
from matrix.preflight._resolvers import readings

PACKAGES = {"vllm": "vllm", "sglang": "sglang", "transformers": "dflash"}
LOOP = (
    "import json, runpy, sys\n"
    "ask = runpy.run_path(sys.argv[1])[sys.argv[2]]\n"
    "print('\\n' + json.dumps([ask(question) for question in json.load(sys.stdin)]))"
)
NESTED = "dflash_config.target_layer_ids"
# Every way in which a file may state its ids, or fail to.
CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "at top level": {NESTED: ..., "target_layer_ids": [1, 3, 5, 7, 9]},
    "nowhere": {NESTED: ...},
    "null": {NESTED: None},
    "null above a list": {NESTED: None, "target_layer_ids": [1, 3, 5, 7, 9]},
    "empty": {NESTED: []},
    "unsorted": {NESTED: [9, 1, 5]},
    "twice": {NESTED: [1, 1, 5]},
    "negative": {NESTED: [-1, 3, 5]},
    "too high": {NESTED: [1, 3, 99]},
    "true": {NESTED: [True, 3, 5]},
    "whole floats": {NESTED: [1.0, 3.0, 5.0]},
    "text": {NESTED: ["1", "3"]},
    "no list": {NESTED: 5},
    "boundaries too": {"eagle_aux_hidden_state_layer_ids": [2, 4, 6, 8, 10]},
    "in eagle_config": {NESTED: ..., "eagle_config.eagle_aux_hidden_state_layer_ids": [2, 4, 6]},
    "eagle_config over": {"eagle_config.eagle_aux_hidden_state_layer_ids": [2, 4, 6]},
    "as layer_ids": {NESTED: ..., "dflash_config.layer_ids": [2, 4, 6]},
    "no depth": {"num_target_layers": ...},
    "one layer, no ids": {NESTED: ..., "num_hidden_layers": 1, "layer_types": ["full_attention"]},
}


def interpreter(engine: str) -> str:
    named = os.environ.get(f"DFLASH_MATRIX_PYTHON_{engine.upper()}")
    if named is None and importlib.util.find_spec(PACKAGES[engine]) is None:
        pytest.skip(
            f"{engine} isn't installed here (DFLASH_MATRIX_PYTHON_{engine.upper()} names another)"
        )
    return named or sys.executable


def cases() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    found = [(name, *configs(name)) for name in GOOD]
    target, draft = configs("nested")
    for name, change in CHANGES.items():
        changed = draft
        for key, value in change.items():
            changed = put(changed, key, value)
        found.append((f"nested, {name}", target, changed))
    return found


@pytest.mark.parametrize("engine", PACKAGES)
def test_our_model_reads_as_the_engine_does(engine: str) -> None:
    python = interpreter(engine)
    asked, questions = [], []
    for name, target, draft in cases():
        said, facts = claims(draft), read_target(target)
        ours = [r for r in readings(draft, said, facts) if r.engine == engine]
        asked.append((name, ours))
        questions.append(
            {
                "config": draft,
                "method": said.method,
                "depth": facts.depth,
                "target_model_type": facts.model_type,
            }
        )
    done = subprocess.run(
        [python, "-c", LOOP, str(_installed._SCRIPT), engine],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={**os.environ, **_installed._QUIET},
    )
    answers = json.loads(done.stdout.strip().rpartition("\n")[2])
    compared, differ = 0, []
    for (name, ours), answer in zip(asked, answers, strict=True):
        for reading in ours:
            theirs = answer.get(reading.resolver)
            # A draft whose model type that environment doesn't know never reaches the resolver.
            if theirs is None or "does not recognize this architecture" in theirs.get("note", ""):
                continue
            compared += 1
            mine = [reading.how, None if reading.ids is None else list(reading.ids)]
            if mine != [theirs["how"], theirs["ids"]]:
                differ.append(
                    f"{name}: {reading.resolver}: {mine} {reading.note!r}; engine {theirs}"
                )
    assert not differ, "\n".join(differ)
    assert compared >= 15


# --- who is asked, and what becomes of the answer -----------------------------------------------


def engine_that(folder: Path, does: str) -> str:
    """An interpreter that runs `does` whatever it is given."""
    script = folder / "python"
    script.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{does}\n")
    script.chmod(0o755)
    return str(script)


def told(python: str, engine: str = "vllm") -> dict[str, Any]:
    target, draft = configs("nested")
    pair = with_installed(examine(Side("t", target), Side("d", draft)), {engine: python})
    return {reading.resolver: reading for reading in pair.readings}


def test_an_engine_s_own_answer_takes_the_place_of_our_model(tmp_path: Path) -> None:
    answer = {"first runner": {"how": "read", "ids": [0, 8]}}
    found = told(engine_that(tmp_path, f"print('noise'); print(json.dumps({answer}))"))
    assert (found["first runner"].by, found["first runner"].ids) == ("installed", (0, 8))
    assert {found[name].by for name in found if name != "first runner"} == {"model"}


def test_what_the_engine_reads_is_what_is_judged(tmp_path: Path) -> None:
    target, draft = configs("nested")
    answer = {"second runner": {"how": "read", "ids": [0, 8, 16, 24, 32]}}
    python = engine_that(tmp_path, f"print(json.dumps({answer}))")
    pair = with_installed(examine(Side("t", target), Side("d", draft)), {"vllm": python})
    (split,) = [j for j in judge(pair).judgements if j.clause == "CFG-RUNNER-SPLIT"]
    assert split.outcome == "fail"
    assert "vllm (second runner) takes [0, 8, 16, 24, 32]" in split.message


def test_a_refusal_is_shown_with_its_reason(tmp_path: Path) -> None:
    answer = {"second runner": {"how": "refused", "ids": None, "note": "ValueError: no"}}
    does = f"print(json.dumps(json.loads({json.dumps(answer)!r})))"
    reading = told(engine_that(tmp_path, does))["second runner"]
    assert (reading.how, reading.ids, reading.note) == ("refused", None, "ValueError: no")


@pytest.mark.parametrize("does", ["sys.exit(3)", "print('no json')", "print('[1]')", "print('{}')"])
def test_an_engine_that_doesn_t_answer_leaves_our_model(tmp_path: Path, does: str) -> None:
    assert {reading.by for reading in told(engine_that(tmp_path, does)).values()} == {"model"}


def test_an_engine_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_installed, "_PATIENCE", 0.5)
    began = time.monotonic()
    assert {r.by for r in told(engine_that(tmp_path, "time.sleep(60)")).values()} == {"model"}
    assert time.monotonic() - began < 10


def test_no_secret_reaches_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_swordfish")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-swordfish")
    seen = tmp_path / "env"
    told(engine_that(tmp_path, f"open({str(seen)!r}, 'w').write(json.dumps(dict(os.environ)))"))
    assert "swordfish" not in seen.read_text()
    assert json.loads(seen.read_text())["HF_HUB_OFFLINE"] == "1"
