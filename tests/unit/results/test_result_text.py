from __future__ import annotations

import json
import math
import unicodedata
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix.faults import Fault
from matrix.results import canonical, one_line, plain
from matrix.results._json import legal
from matrix.results._text import redactor


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "red"),
        ("a\x1b(Bb", "ab"),
        ("progress 1\rprogress 2\r\n", "progress 1\nprogress 2\n"),
        ("a\x00\x08b", "ab"),
        ("user\u202egnp.exe", "usergnp.exe"),
        ("\x1b]0;never ended\nnext line", "\nnext line"),
        ("tab\tand\nnewline", "tab\tand\nnewline"),
        ("half \ud83d", "half ?"),
    ],
)
def test_plain_strips_what_a_terminal_obeys(said: str, left: str) -> None:
    assert plain(said) == left


@given(st.text(st.characters(categories=["Cc", "Cf", "L", "P", "N"]), max_size=60))
def test_plain_leaves_no_control_character_and_is_idempotent(text: str) -> None:
    left = plain(text)
    assert not [c for c in left if unicodedata.category(c) == "Cc" and c not in "\t\n"]
    assert plain(left) == left


@pytest.mark.parametrize(
    "said",
    ["::error::owned", "  ::set-output name=x::1", "\x1b[0m::error::x", "a\n::warning::b"],
)
def test_no_line_starts_with_a_workflow_command(said: str) -> None:
    line = one_line(said)
    assert not line.lstrip().startswith("::")
    assert "\n" not in line


def test_a_bracketed_workflow_command_is_broken_anywhere() -> None:
    assert "##[" not in one_line("text ##[error]owned ###[x]")


ENVIRON = {
    "HF_TOKEN": "hf_abcdefghijkl",
    "OPENAI_API_KEY": "sk-123456-long",
    "OPENAI_API_KEY_SHORT": "not-a-secret-name",
    "DEPLOY_SECRET": "sk-123456",
    "CI_JOB_TOKEN": "tok/en+with=signs",
    "SORT_KEY": "pair",
    "HOME": "/home/somebody",
}


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("token hf_abcdefghijkl.", "token ***."),
        ("sk-123456-long then sk-123456", "*** then ***"),
        ("tok/en+with=signs", "***"),
        ("a pair in /home/somebody not-a-secret-name", None),
        ("GET https://me:pw@example.org/x?y=1", "GET https://***@example.org/x?y=1"),
        ("https://example.org/f?token=abc&z=1", "https://example.org/f?token=***&z=1"),
        ("https://e.org/?X-Amz-Signature=ab12", "https://e.org/?X-Amz-Signature=***"),
        ("git+ssh://deploy@example.org/r", "git+ssh://***@example.org/r"),
        ("mail me@example.org about https://example.org/@name", None),
    ],
)
def test_redaction(said: str, left: str | None) -> None:
    assert redactor(ENVIRON)(said) == (said if left is None else left)


def test_redaction_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATRIX_TEST_KEY", "very-secret-value")
    assert redactor()("says very-secret-value") == "says ***"


def test_redaction_of_a_long_text_stays_linear() -> None:
    assert redactor()("a.b-" * 500_000).startswith("a.b-")  # quadratic would take hours


def test_legal_makes_values_json_can_hold() -> None:
    value = {
        "nan": math.nan,
        "inf": [math.inf, -math.inf],
        "array": np.array([[1.5, np.nan]], dtype=np.float32),
        "scalar": np.int64(7),
        "float32": np.float32(0.5),
        "big": 2**70,
        "label": Fault.TAP_ORDER,
        3: (1, True, None),
        "set": {"b", "a"},
        "other": Fraction(1, 2),
        "half": "\ud83d",
    }
    made = legal(value)
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert made == {
        "nan": "nan",
        "inf": ["inf", "-inf"],
        "array": [[1.5, "nan"]],
        "scalar": 7,
        "float32": 0.5,
        "big": 2**70,
        "label": "tap-order",
        "3": [1, True, None],
        "set": ["a", "b"],
        "other": "1/2",
        "half": "?",
    }


def test_legal_ends_on_a_value_that_holds_itself() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert json.dumps(legal(endless)).count("[") == 100


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_canonical_survives_a_journal(example: object) -> None:
    assert canonical(json.loads(json.dumps(legal(example)))) == canonical(example)


def test_canonical_tells_values_apart_that_python_calls_equal() -> None:
    assert len({canonical([value]) for value in (1, 1.0, True, "1")}) == 4
    assert canonical({"b": (1, 2), "a": None}) == '{"a":null,"b":[1,2]}'
