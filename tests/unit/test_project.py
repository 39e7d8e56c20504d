"""The project around the code: what a user starts, what the wheel holds, what the files promise."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any, Final

import pytest

import matrix
from matrix.cli import main
from matrix.faults import GIVES
from matrix.registry import load

ROOT: Final = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)


def test_import_matrix_imports_nothing_but_the_standard_library() -> None:
    done = run("-X", "importtime", "-c", "import matrix")
    named = re.findall(r"\|\s*\d+ \|\s*(\w+)", done.stderr)
    assert "matrix" in named
    assert not set(named) & {"torch", "transformers", "numpy", "msgspec", "hypothesis"}


def test_list_names_every_row() -> None:
    done = run("-m", "matrix", "list")
    assert done.returncode == 0, done.stderr
    listed = [line.split()[0] for line in done.stdout.splitlines()]
    assert listed == [pair.key for pair in load(()).select([], None)]


def test_the_version_is_the_same_everywhere(
    project: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    version = project["project"]["version"]
    assert matrix.__version__ == version
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"dflash-matrix {version}\n"
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_named_pairs_are_rows_of_many_kinds(project: dict[str, Any]) -> None:
    keys = project["tool"]["dflash-matrix-ci"]["pairs"]
    rows = load(()).select(keys, None)
    assert [row.key for row in rows] == keys
    assert len(rows) == 8
    assert len({row.arch for row in rows}) >= 4
    assert len({row.layout for row in rows}) >= 2
    assert {row.kind for row in rows} == {"real", "synthetic"}


def test_the_workflow_tests_every_python_that_the_classifiers_name(
    project: dict[str, Any],
) -> None:
    prefix = "Programming Language :: Python :: "
    named = [c.removeprefix(prefix) for c in project["project"]["classifiers"] if prefix in c]
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    listed = re.search(r"python: \[(.*)\]", workflow)
    assert listed, "ci.yml should list its Pythons on one line"
    assert re.findall(r"3\.\d+", listed[1]) == named


def test_ci_the_workflow_and_the_readme_name_sessions_that_exist() -> None:
    sessions = set(re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(), re.M))
    assert {"lint", "typing", "tests", "matrix", "bench"} <= sessions
    budgets = re.findall(r'^  "(\w+) \d+"$', (ROOT / ".ci/run").read_text(), re.M)
    assert budgets[:4] == ["lint", "typing", "tests", "matrix"]
    named = [
        session
        for file in ("README.md", "CONTRIBUTING.md", ".github/workflows/ci.yml")
        for session in re.findall(r"nox -s (\w+)", (ROOT / file).read_text())
    ]
    assert named
    assert {*budgets, *named} <= sessions


def test_the_documents_name_only_clauses_and_rules_that_exist() -> None:
    families = {clause.partition("-")[0] for clause in GIVES}
    pattern = re.compile(rf"\b(?:{'|'.join(sorted(families))})(?:-[A-Z]+)+\b")
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    named = {name for file in files for name in pattern.findall(file.read_text())}
    assert named
    assert not named - GIVES.keys()


def test_every_link_to_a_file_leads_somewhere() -> None:
    broken = [
        f"{file.relative_to(ROOT)}: {link}"
        for file in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read_text())
        if not (file.parent / link).exists()
    ]
    assert not broken


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    pytest.importorskip("hatchling", reason="the wheel is built with hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_module_and_data_file(wheel: set[str]) -> None:
    files = (path for path in (ROOT / "matrix").rglob("*") if path.is_file())
    wanted = {
        path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts
    }
    assert wanted <= wheel
    assert "matrix/registry/expectations.toml" in wanted
    assert "matrix/py.typed" in wanted


def test_the_wheel_holds_suite_proofs_and_fixtures(wheel: set[str]) -> None:
    for home, inside in (
        ("tests/contract", "matrix/_suite"),
        ("tests/meta", "matrix/_meta"),
        ("fixtures", "matrix/_fixtures"),
    ):
        paths = [path for path in (ROOT / home).rglob("*.*") if path.is_file()]
        files = [path.relative_to(ROOT / home).as_posix() for path in paths]
        kept = {f"{inside}/{name}" for name in files if "__pycache__" not in name}
        assert kept, f"{home} should hold files"
        assert kept <= wheel


def test_the_wheel_holds_nothing_else(wheel: set[str]) -> None:
    tops = {name.split("/")[0] for name in wheel}
    assert tops == {"matrix", f"dflash_matrix-{matrix.__version__}.dist-info"}
    assert not [name for name in wheel if "__pycache__" in name or name.endswith(".pyc")]
