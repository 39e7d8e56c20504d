"""Each fault of the code book, planted, is read as itself; faults outside it never as one of it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from matrix import registry
from matrix._plan import Plan, select_clauses
from matrix.canary import BOOK
from matrix.contract import CLAUSES, Bench, Verdict
from matrix.engines import Deadlines, RemoteEngine, StartSpec
from matrix.reference import Reference
from matrix.registry import Pair
from matrix.results import Cell
from matrix.selfcheck import META, Subject
from matrix.session import Session, new_run_id

from .test_planted import SUBJECTS

VLLM = SUBJECTS["vllm"]
FOLDER = META / "canary"
VERDICTS = tomllib.loads((FOLDER / "verdicts.toml").read_text())
CANARIES = tuple(pair.key for pair in registry.load([]).pairs.values() if pair.kind == "canary")
CI = {"vllm": {"healthy", "ids_one_low", "foreign", "draft_norm"}}
"""What every CI run drills, where that isn't all of an engine's: files, and all healthy canaries."""


def find(engine: str, name: str) -> Path:
    """The planted or harmless file of that name."""
    homes = (FOLDER / engine, META / "planted" / engine, META / "harmless" / engine)
    return next(file for home in homes if (file := home / f"{name}.py").exists())


def judged(
    subject: Subject,
    key: str,
    clauses: list[str],
    reference: Reference,
    out: Path,
    **options: object,
) -> dict[str, Cell]:
    """Clause -> cell of one canary."""
    assert subject.python is not None, "skipped where the environment names no interpreter"
    plan = Plan(
        engine=subject.name,
        pairs=registry.load([]).select([key]),
        out=out,
        python=subject.python,
        clauses=select_clauses(clauses),
        deadlines=Deadlines(),
        memory_mb=subject.memory_mb,
        **options,  # type: ignore[arg-type]  # any field of a plan
    )
    with Session(plan, new_run_id(), reference) as session:
        return {cell.clause: cell for cell in session.run() if cell.clause in plan.clauses}


@contextmanager
def started(plan: Plan, pair: Pair, reference: Reference) -> Iterator[Bench]:
    """One start of a pair, with what a clause needs."""
    twin = reference.twin(pair, plan.dtype)
    worker = plan.worker(plan.out / "worker.log")
    try:
        engine = RemoteEngine(worker, plan.deadlines)
        lacks = engine.identify().lacks
        spec = StartSpec(
            pair.arch,
            twin.target,
            twin.draft,
            "main",
            pair.speculative_method,
            plan.dtype,
            "cpu",
            twin.drafts,
            1024,
        )
        yield Bench(
            pair, twin, engine, reference, lacks, plan.dtype, started={"main": engine.start(spec)}
        )
    finally:
        worker.close()


def marks(engine: str, name: str) -> list[pytest.MarkDecorator]:
    why = f"DFLASH_MATRIX_PYTHON_{engine.upper()} names no interpreter that has {engine}"
    missing = pytest.mark.skipif(SUBJECTS[engine].python is None, reason=why)
    return [missing] + [pytest.mark.ci] * (name in CI.get(engine, {name}))


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        pytest.param(engine, name, id=f"{engine}-{name}", marks=marks(engine, name))
        for engine, files in VERDICTS.items()
        for name in files
    ],
)
def test_a_planted_fault_is_read_as_the_book_says(
    engine: str, name: str, reference: Reference, tmp_path: Path
) -> None:
    due = VERDICTS[engine][name]
    cells = judged(
        SUBJECTS[engine],
        "canary-qwen3",
        [*due, "OUTPUT-LOSSLESS"],
        reference,
        tmp_path,
        inject=find(engine, name),
    )
    assert {clause: cells[clause].metrics.get("verdict") for clause in due} == due, {
        clause: (cells[clause].detail, cells[clause].actual) for clause in due
    }
    assert cells["OUTPUT-LOSSLESS"].outcome == "pass", "an equality check sees none of these"
    for clause, verdict in due.items():
        label = BOOK[verdict].label if verdict in BOOK else "acceptance-collapse"
        label = "plane-stale" if verdict == "foreign" and clause == "CANARY-PROFILE" else label
        assert cells[clause].fault == (None if verdict == "correct" else label)
        assert all(cells[clause].metrics["lossless"] for clause in due)


@pytest.mark.parametrize(
    ("engine", "key"),
    [
        pytest.param(engine, key, id=f"{engine}-{key}", marks=marks(engine, "healthy"))
        for engine in VERDICTS
        for key in CANARIES
    ],
)
def test_a_healthy_engine_is_read_as_correct(
    engine: str, key: str, reference: Reference, tmp_path: Path
) -> None:
    dtype = "bfloat16" if engine == "vllm" and "3.5" in key else "float32"
    cells = judged(SUBJECTS[engine], key, ["CANARY-*"], reference, tmp_path, dtype=dtype)
    said = {
        clause: (cell.outcome, cell.reason_code or cell.metrics["verdict"])
        for clause, cell in cells.items()
    }
    due = dict.fromkeys(said, ("pass", "correct"))
    if engine == "transformers":  # one request at a time, without a prefix cache
        due |= dict.fromkeys(("CANARY-LOAD", "CANARY-CACHE"), ("skip", "not-applicable"))
    elif "3.5" in key:  # vLLM caches no prefix of a hybrid target here
        due |= {"CANARY-CACHE": ("skip", "not-applicable")}
    assert said == due


@pytest.mark.parametrize(
    ("dtype", "inject", "seeds"),
    [
        pytest.param("float32", None, range(25), id="float32"),
        pytest.param("bfloat16", None, range(25, 50), id="bfloat16"),
        pytest.param("float32", "float8", range(50, 60), id="float8-planes"),
    ],
)
@pytest.mark.skipif(VLLM.python is None, reason="DFLASH_MATRIX_PYTHON_VLLM names no interpreter")
def test_healthy_runs_on_vllm_are_always_read_as_correct(
    dtype: str, inject: str | None, seeds: range, reference: Reference, tmp_path: Path
) -> None:
    """Each seed has prompts of its own, on one start."""
    assert VLLM.python is not None, "skipped where the environment names no interpreter"
    (pair,) = registry.load([]).select(["canary-qwen3"])
    plan = Plan(
        "vllm",
        (pair,),
        tmp_path,
        python=VLLM.python,
        dtype=dtype,
        inject=find("vllm", inject) if inject else None,
        memory_mb=VLLM.memory_mb,
    )
    said = {}
    with started(plan, pair, reference) as bench:
        for seed in seeds:
            bench.seed = seed
            for clause in ("CANARY-PROFILE", "CANARY-LOAD"):
                verdict = CLAUSES[clause].check(bench)
                assert isinstance(verdict, Verdict), f"seed {seed}: {clause}: {verdict}"
                said[seed, clause] = verdict.metrics["verdict"]
    assert set(said.values()) == {"correct"}, {k: v for k, v in said.items() if v != "correct"}


def test_the_whole_book_is_planted_in_each_engine() -> None:
    for engine, files in VERDICTS.items():
        planted = {verdict for due in files.values() for verdict in due.values()}
        assert set(BOOK) <= planted, f"{engine}: {set(BOOK) - planted}"
        assert all(find(engine, name) for name in files)
