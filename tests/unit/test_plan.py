"""What a run is asked to do, and the line that asks for one cell again."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import PAIR

from matrix._plan import Plan, select_clauses
from matrix.contract import CLAUSES
from matrix.engines import Deadlines
from matrix.errors import UsageError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def make(**values: Any) -> Plan:
    return Plan("transformers", (PAIR,), Path("out"), **values)


def test_without_a_glob_every_clause_is_selected() -> None:
    assert select_clauses([]) == frozenset(CLAUSES)


def test_globs_select_by_id_in_any_case() -> None:
    assert select_clauses(["tap-*", "AUX-VALUE"]) == {
        key for key in CLAUSES if key.startswith("TAP-") or key == "AUX-VALUE"
    }


@pytest.mark.parametrize("glob", ["TAPE-*", "AUX", ""])
def test_a_glob_that_matches_nothing_is_a_usage_error(glob: str) -> None:
    with pytest.raises(UsageError, match="no such clause"):
        select_clauses(["AUX-*", glob])


def test_the_shortest_repro_names_pair_engine_clause_seed_and_dtype() -> None:
    assert make().repro(PAIR, "AUX-VALUE", None) == (
        "dflash-matrix run fake --engine transformers --clause AUX-VALUE --seed 0 --dtype float32"
    )


def test_the_repro_carries_all_that_the_cell_hangs_on() -> None:
    plan = make(
        seed=5,
        dtype="bfloat16",
        max_examples=99,
        python="/opt/an engine/bin/python",
        inject=Path("faults/one low.py"),
        registry=(Path("rows.toml"), Path("more rows.toml")),
    )
    words = shlex.split(plan.repro(PAIR, "TAP-DUP", {"ids": [1, 1]}))
    text = " ".join(words)
    assert "--seed 5 --dtype bfloat16" in text
    assert [words[i + 1] for i, word in enumerate(words) if word == "--registry"] == [
        "rows.toml",
        "more rows.toml",
    ]
    assert words[words.index("--python") + 1] == "transformers=/opt/an engine/bin/python"
    assert words[words.index("--inject") + 1] == "faults/one low.py"
    assert words[words.index("--max-examples") + 1] == "99"
    assert json.loads(words[words.index("--example") + 1]) == {"ids": [1, 1]}


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(JSON.filter(lambda example: example is not None))
def test_any_example_survives_the_shell(example: Any) -> None:
    words = shlex.split(make().repro(PAIR, "TAP-TYPE", example))
    assert json.loads(words[-1]) == example


def test_a_real_shell_reads_the_line_as_it_was_meant() -> None:
    example = {"ids": ["$(touch /tmp/x)", "`id`", "'; rm -r .", '"', "\\", "!", "*"]}
    line = make().repro(PAIR, "TAP-TYPE", example)
    done = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == example


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Deadlines()),
        ("start=5", Deadlines(start=5.0)),
        ("start=1,call=2,clause=3,row=4.5", Deadlines(1.0, 2.0, 3.0, 4.5)),
        (" call = 9 ,", Deadlines(call=9.0)),
    ],
)
def test_deadlines_are_given_by_name(text: str, expected: Deadlines) -> None:
    assert Deadlines.parse(text) == expected


@pytest.mark.parametrize(
    "text", ["call", "call=", "call=soon", "call=0", "call=-1", "call=nan", "step=5", "=5"]
)
def test_other_deadlines_are_usage_errors_of_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="--timeout") as caught:
        Deadlines.parse(text)
    assert "\n" not in str(caught.value)
