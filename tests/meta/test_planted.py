"""Every planted fault turns red what the committed table says, with that label, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from matrix.contract import CLAUSES
from matrix.faults import GIVES
from matrix.reference import Reference

from ._drill import drill, planted, red, table

ENGINE = "transformers"
ROWS = next(
    rows
    for home in Path(__file__).parents
    for rows in (home / "fixtures/rows/tiny.toml", home / "_fixtures/rows/tiny.toml")
    if rows.exists()
)
OUTCOMES = {"crash", "timeout", "oom", "xpass"}


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of this process's own: drills clear the saved examples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DFLASH_MATRIX_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def reference(own_cache: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    """One reference for all drills of this process; nothing is ever planted in it."""
    found = Reference(tmp_path_factory.mktemp("reference") / "reference.log")
    yield found
    found.close()


@pytest.mark.parametrize("file", planted("planted", ENGINE), ids=lambda file: file.stem)
def test_a_planted_fault_is_caught_and_named(
    file: Path, reference: Reference, tmp_path: Path
) -> None:
    cells = drill(file, reference, tmp_path, ROWS)
    assert red(cells) == table()[ENGINE][file.stem]


@pytest.mark.parametrize("file", planted("harmless", ENGINE), ids=lambda file: file.stem)
def test_a_harmless_change_turns_nothing_red(
    file: Path, reference: Reference, tmp_path: Path
) -> None:
    cells = drill(file, reference, tmp_path, ROWS)
    assert red(cells) == {}
    assert sum(cell.outcome == "pass" for cell in cells) >= 20


def test_the_table_and_the_files_agree() -> None:
    assert set(table()[ENGINE]) == {file.stem for file in planted("planted", ENGINE)}


def test_the_table_names_labels_that_its_clauses_can_give() -> None:
    for name, consequences in table()[ENGINE].items():
        assert consequences, f"{name} turns nothing red: it is no fault, or no clause sees it"
        for clause, label in consequences.items():
            assert label in OUTCOMES or label in GIVES[clause], f"{name}: {clause}: {label}"


def test_every_clause_of_this_engine_is_turned_red_by_something() -> None:
    """A check that cannot fail is a defect."""
    bitten = {clause for one in table()[ENGINE].values() for clause in one}
    not_here = {
        clause.id
        for clause in CLAUSES.values()
        if set(clause.needs) & {"hook", "batch", "prefix-cache", "chunk", "reconfigure"}
    }
    assert set(CLAUSES) - bitten - not_here == set()
