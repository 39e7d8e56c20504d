"""Every planted fault turns red what the committed table says, with that label, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from matrix.contract import CLAUSES
from matrix.faults import GIVES
from matrix.reference import Reference
from matrix.selfcheck import Subject, drill, in_ci, planted, red, subject, table

SUBJECTS = {engine: subject(engine) for engine in ("transformers", "vllm")}
OUTCOMES = {"crash", "timeout", "oom", "xpass"}
ENGINES = pytest.mark.parametrize("engine", SUBJECTS)

NOT_HERE = {
    "transformers": {
        *("hook", "batch", "prefix-cache", "chunk", "reconfigure"),
        *("sample", "runners", "public", "ranks", "probe"),
    },
    "vllm": {"probe"},
}
"""What a clause may need that an engine can't have. Clauses on starts that only some rows ask for
(two ranks, the public way to get planes) are judged on those rows, and never on this one.
"""


def files(kind: str) -> pytest.MarkDecorator:
    """All files of a kind, each with its subject; an engine that isn't there is skipped."""
    return pytest.mark.parametrize(
        ("subject", "file"),
        [
            pytest.param(
                subject, file, id=f"{subject.name}-{file.stem}", marks=_marks(subject, file)
            )
            for subject in SUBJECTS.values()
            for file in planted(kind, subject.name)
        ],
    )


def _marks(subject: Subject, file: Path) -> list[pytest.MarkDecorator]:
    why = f"DFLASH_MATRIX_{subject.name.upper()} names no interpreter that has {subject.name}"
    marks = [pytest.mark.skipif(subject.python is None, reason=why)]
    return marks + [pytest.mark.ci] * (file.stem in in_ci(subject.name))


@files("planted")
def test_a_planted_fault_is_caught_and_named(
    subject: Subject, file: Path, reference: Reference, tmp_path: Path
) -> None:
    assert red(drill(subject, file, reference, tmp_path)) == table()[subject.name][file.stem]


@files("harmless")
def test_a_harmless_change_turns_nothing_red(
    subject: Subject, file: Path, reference: Reference, tmp_path: Path
) -> None:
    cells = drill(subject, file, reference, tmp_path)
    assert red(cells) == {}
    assert sum(cell.outcome == "pass" for cell in cells) >= subject.passes


@ENGINES
def test_the_table_and_the_files_agree(engine: str) -> None:
    assert set(table()[engine]) == {file.stem for file in planted("planted", engine)}
    harmless = {file.stem for file in planted("harmless", engine)}
    assert in_ci(engine) <= set(table()[engine]) | harmless


@ENGINES
def test_the_table_names_labels_that_its_clauses_can_give(engine: str) -> None:
    for name, consequences in table()[engine].items():
        assert consequences, f"{name} turns nothing red: it is no fault, or no clause sees it"
        for clause, label in consequences.items():
            assert label in OUTCOMES or label in GIVES[clause], f"{name}: {clause}: {label}"


@ENGINES
def test_every_clause_of_an_engine_is_turned_red_by_something(engine: str) -> None:
    """A check that cannot fail is a defect."""
    bitten = {clause for one in table()[engine].values() for clause in one}
    not_here = {
        clause.id
        for clause in CLAUSES.values()
        if set(clause.needs) & NOT_HERE[engine]
        or clause.settings[-1] not in ("plain", "main")
        or clause.id.startswith("CANARY-")  # test_canary.py: this row is not trained
    }
    assert set(CLAUSES) - bitten - not_here == set()
