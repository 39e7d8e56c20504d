from __future__ import annotations

import pytest

from matrix.errors import RegistryError
from matrix.registry import UserConfig, user_config


def write(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text)


def test_the_nearest_pyproject_counts_and_its_paths_start_there(tmp_path):
    write(
        tmp_path,
        """
[tool.dflash-matrix]
registry = ["rows/mine.toml", "/abs/theirs.toml"]
[tool.dflash-matrix.python]
vllm = "/opt/vllm/bin/python"
""",
    )
    (tmp_path / "a" / "b").mkdir(parents=True)
    config = user_config(tmp_path / "a" / "b")
    assert [str(path) for path in config.registry] == [
        str(tmp_path / "rows" / "mine.toml"),
        "/abs/theirs.toml",
    ]
    assert config.python == {"vllm": "/opt/vllm/bin/python"}


def test_a_nearer_pyproject_without_the_table_hides_the_outer_one(tmp_path):
    write(tmp_path, '[tool.dflash-matrix]\nregistry = ["mine.toml"]\n')
    write(tmp_path / "inner", "[project]\n")
    assert user_config(tmp_path / "inner") == UserConfig()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("registri = []", r"\[tool.dflash-matrix\]: registri: unknown field; did you mean 'regis"),
        ('registry = "mine.toml"', "registry: should be an array, not a string"),
        ("python = { vllm = 3 }", "should be a string, not a whole number"),
        ("registry = [", "line 3: is not TOML"),
    ],
)
def test_a_wrong_table_is_refused_with_its_place(tmp_path, table, message):
    write(tmp_path, f"[tool.dflash-matrix]\n{table}\n")
    with pytest.raises(RegistryError, match=message) as caught:
        user_config(tmp_path)
    assert caught.value.file == str(tmp_path / "pyproject.toml")
