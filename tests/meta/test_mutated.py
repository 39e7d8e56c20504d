"""Preflight against real starts: what it lets through doesn't die of a shape, what runs it lets through.

Each pair is a twin whose configs were changed in one or two places, judged by `preflight`, then
started on vLLM, asked for a few tokens, and its planes compared with the reference.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from matrix import registry
from matrix._plan import Plan
from matrix.engines import Deadlines, Engine, RemoteEngine, Request, StartSpec
from matrix.errors import EngineError, UsageError
from matrix.preflight import examine, judge, open_draft, open_target
from matrix.reference import Reference
from matrix.selfcheck import ROW, ROWS
from matrix.twins import Twin

from .test_planted import SUBJECTS

VLLM = SUBJECTS["vllm"]
GONE = ...
SHAPES = re.compile(
    r"size mismatch|shapes cannot be multiplied|must match|k-axis|size of tensor|AssertionError"
    r"|out of range|out of bounds|captured \d+ aux|IndexError|features expected"
)
"""How vLLM dies when two sides disagree on numbers."""

# What is written over the draft's config, then over the target's; dotted keys, `...` deletes one.
IDS, MASK = "dflash_config.target_layer_ids", "dflash_config.mask_token_id"
MUTATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as-published": ({}, {}),
    "ids-gone": ({IDS: GONE}, {}),
    "ids-empty": ({IDS: []}, {}),
    "ids-two": ({IDS: [1, 5]}, {}),
    "ids-four": ({IDS: [1, 3, 5, 6]}, {}),
    "ids-one-past": ({IDS: [1, 3, 8]}, {}),
    "ids-far-past": ({IDS: [1, 3, 99]}, {}),
    "ids-negative": ({IDS: [-1, 3, 5]}, {}),
    "ids-last": ({IDS: [1, 3, 7]}, {}),
    "ids-first": ({IDS: [0, 3, 5]}, {}),
    "ids-other": ({IDS: [2, 4, 6]}, {}),
    "ids-repeated": ({IDS: [1, 1, 5]}, {}),
    "ids-unordered": ({IDS: [5, 1, 3]}, {}),
    "ids-text": ({IDS: "1,3,5"}, {}),
    "ids-strings": ({IDS: ["1", "3", "5"]}, {}),
    "ids-fraction": ({IDS: [1.5, 3, 5]}, {}),
    "ids-number": ({IDS: 3}, {}),
    "ids-flat": ({IDS: GONE, "target_layer_ids": [1, 3, 5]}, {}),
    "ids-boundaries": ({IDS: GONE, "eagle_aux_hidden_state_layer_ids": [2, 4, 6]}, {}),
    "ids-twice-alike": ({"target_layer_ids": [1, 3, 5]}, {}),
    "ids-twice-unlike": ({"target_layer_ids": [0, 2, 4]}, {}),
    "nested-gone": ({"dflash_config": GONE}, {}),
    "mask-gone": ({MASK: GONE}, {}),
    "mask-flat": ({MASK: GONE, "mask_token_id": 511}, {}),
    "mask-past": ({MASK: 512}, {}),
    "mask-negative": ({MASK: -1}, {}),
    "mask-other": ({MASK: 0}, {}),
    "block-gone": ({"block_size": GONE}, {}),
    "block-zero": ({"block_size": 0}, {}),
    "block-small": ({"block_size": 4}, {}),
    "depth-gone": ({"num_target_layers": GONE}, {}),
    "depth-less": ({"num_target_layers": 5}, {}),
    "depth-more": ({"num_target_layers": 36}, {}),
    "width-other": ({"hidden_size": 128}, {}),
    "target-width-said": ({"target_hidden_size": 64}, {}),
    "target-width-other": ({"target_hidden_size": 128}, {}),
    "vocabulary-less": ({"vocab_size": 256}, {}),
    "layers-more": ({"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3}, {}),
    "heads-other": ({"num_attention_heads": 8}, {}),
    "class-unknown": ({"architectures": ["DFlashFoo"]}, {}),
    "class-gone": ({"architectures": GONE}, {}),
    "context-less": ({"max_position_embeddings": 64}, {}),
    "window": (
        {
            "layer_types": ["sliding_attention"] * 2,
            "sliding_window": 16,
            "use_sliding_window": True,
        },
        {},
    ),
    "target-layers-less": ({}, {"num_hidden_layers": 4, "layer_types": ["full_attention"] * 4}),
}


def changed(twin: Twin, name: str, home: Path) -> tuple[Path, Path]:
    """Copies of target and draft with their configs changed."""
    sides = Path(twin.draft), Path(twin.target)
    for side, changes in zip(sides, MUTATIONS[name], strict=True):
        copy = home / side.name
        shutil.copytree(side, copy)
        config = json.loads((copy / "config.json").read_text())
        for dotted, value in changes.items():
            *path, key = dotted.split(".")
            table = config
            for part in path:
                table = table[part]
            if value is GONE:
                del table[key]
            else:
                table[key] = value
        (copy / "config.json").write_text(json.dumps(config))
    return home / "target", home / "draft"


def refused(target: Path, draft: Path) -> list[str]:
    """The structural clauses that refuse the pair, or the one line that does."""
    try:
        result = judge(examine(open_target(str(target)), open_draft(str(draft)), engine="vllm"))
    except UsageError as error:
        return [str(error)]
    failed = [str(one.clause) for one in result.judgements if one.outcome == "fail"]
    return [
        clause for clause in failed if clause != "CFG-RUNNER-SPLIT"
    ]  # one runner runs it all the same


def died(engine: Engine, spec: StartSpec) -> str | None:
    """What the engine dies of, in a start or a first request; `None` when it works."""
    try:
        engine.start(spec)
        for run in engine.generate([Request(list(range(40, 60)), 12)]):
            if run.error is not None:
                return f"{run.error.type_name}: {run.error.text}"
    except EngineError as error:
        return f"{error.type_name}: {error.text}"
    return None


@pytest.mark.skipif(
    VLLM.python is None, reason="DFLASH_MATRIX_PYTHON_VLLM names no interpreter that has vllm"
)
@pytest.mark.parametrize("name", MUTATIONS)
def test_preflight_and_vllm_agree(name: str, reference: Reference, tmp_path: Path) -> None:
    assert VLLM.python is not None, "skipped where the environment names no interpreter"
    (pair,) = registry.load([ROWS]).select([ROW])
    twin = reference.twin(pair, "float32")
    target, draft = changed(twin, name, tmp_path)
    said = refused(target, draft)
    plan = Plan("vllm", (pair,), tmp_path, python=VLLM.python, memory_mb=VLLM.memory_mb)
    with_worker = plan.worker(tmp_path / "vllm.log")
    spec = StartSpec(
        pair.arch, str(target), str(draft), "main", "dflash", "float32", "cpu", 7, 1024
    )
    try:
        end = died(RemoteEngine(with_worker, Deadlines()), spec)
    finally:
        with_worker.close()
    if end is not None and SHAPES.search(end):
        assert said, f"preflight lets a pair through that dies of {end}"
    if end is None and name in SOUND:
        assert not said, f"preflight refuses what vLLM runs rightly: {said}"


SOUND = {
    "as-published",
    "ids-last",
    "ids-first",
    "ids-other",
    "ids-flat",
    "ids-twice-alike",
    "mask-flat",
    "mask-other",
    "block-small",
    "depth-gone",
    "target-width-said",
    "window",
}
"""Pairs with nothing wrong in them: other layers than those trained on are still legal ones."""
