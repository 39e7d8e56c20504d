"""docs/registry.md says what the code does."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from matrix.errors import RegistryError
from matrix.registry import Baseline, Expectation, Gate, Pair, load, user_config

DOCS = (Path(__file__).parents[3] / "docs" / "registry.md").read_text()
BLOCKS = re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)


@pytest.mark.parametrize("row", [Pair, Gate, Baseline, Expectation])
def test_every_field_is_described(row):
    described = {word for line in DOCS.splitlines() for word in re.findall(r"`(\w+)`", line)}
    assert {field.name for field in fields(row)} - {"file", "position"} <= described


def test_every_example_loads(tmp_path):
    config, pair, expectation = BLOCKS
    (tmp_path / "pyproject.toml").write_text(config)
    (tmp_path / "matrix").mkdir()
    (tmp_path / "matrix" / "mine.toml").write_text(pair + expectation)
    registry = load(user_config(tmp_path).registry)
    assert registry.pairs["mine-draft"].baselines[0].acceptance_length == 4.1
    assert registry.expectations[-1].clause == "HOOK-PRESENT"


def test_the_quoted_refusal_is_word_for_word(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(BLOCKS[1].replace("25, 33]", "25, 36]"))
    with pytest.raises(RegistryError) as caught:
        load([path])
    assert str(caught.value).removeprefix(f"{tmp_path}/") in DOCS
