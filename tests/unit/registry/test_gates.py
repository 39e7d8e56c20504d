from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from matrix.registry import Gate, Pair, gated

PAIR = Pair(
    key="p",
    target="o/t",
    speculative_model="o/d",
    arch="Qwen3NextForCausalLM",
    num_target_layers=4,
    target_layer_ids=(1,),
    gates=(Gate("vllm", ">=0.21.0", "its draft class came with it"),),
    min_transformers_version="4.56.3",
    max_transformers_version="5.30.0",
    transformers_version_reason="first release with Qwen3-Next",
)


@pytest.mark.parametrize(
    ("engine", "version", "transformers"),
    [
        ("vllm", "0.21.0", "5.0.0"),
        ("vllm", "0.22.0rc1", "5.0.0"),
        ("vllm", "from-source", "5.0.0"),
        ("sglang", "0.1", "5.0.0"),
        ("sglang", "0.1", None),
    ],
)
def test_releases_inside_every_gate_run(
    engine: str, version: str, transformers: str | None
) -> None:
    assert gated(PAIR, engine, version, transformers) is None


@pytest.mark.parametrize(
    ("engine", "version", "transformers", "said"),
    [
        ("vllm", "0.20.2", "5.0.0", "needs vllm >=0.21.0, not 0.20.2: its draft class"),
        ("sglang", "0.1", "4.56.2", "needs transformers >=4.56.3,<=5.30.0, not 4.56.2: first"),
        ("sglang", "0.1", "5.31.0", "not 5.31.0: first release with Qwen3-Next"),
    ],
)
def test_a_release_outside_a_gate_is_told_with_the_reason(
    engine: str, version: str, transformers: str, said: str
) -> None:
    assert said in (gated(PAIR, engine, version, transformers) or "")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"speculative_method": "dspark"},
            "the authors' code drafts with dflash and dflash2, not with dspark",
        ),
        ({"streams": 4}, "the authors' code reads a target with one residual stream, not with 4"),
    ],
)
def test_what_the_authors_code_has_no_class_for_is_gated_on_it_alone(
    change: dict[str, Any], said: str
) -> None:
    row = replace(PAIR, **change)
    assert gated(row, "transformers", "0.1.0", "5.0.0") == said
    assert gated(row, "vllm", "0.21.0", "5.0.0") is None
    assert gated(PAIR, "transformers", "0.1.0", "5.0.0") is None


def test_a_row_without_gates_runs_anywhere() -> None:
    free = replace(PAIR, gates=(), min_transformers_version=None, max_transformers_version=None)
    assert gated(free, "vllm", "0.0.1", "1.0") is None
