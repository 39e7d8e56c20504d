"""Registry x clauses: each test reports what the runner found for its cell."""

from __future__ import annotations

import pytest

from matrix.results import Cell, Outcome, one_line, unexpected


def test_clause(matrix_cell: Cell, request: pytest.FixtureRequest) -> None:
    """The clause holds on the pair, or fails as an expectation says."""
    report(matrix_cell, strict=request.config.getoption("--matrix-strict"))


@pytest.mark.gpu
def test_row_on_gpu(matrix_row: list[Cell], request: pytest.FixtureRequest) -> None:
    """Every clause of a row, on the GPU."""
    strict = request.config.getoption("--matrix-strict")
    red = [cell for cell in matrix_row if unexpected(cell, strict)]
    assert not red, "\n".join(describe(cell) for cell in red)


def report(cell: Cell, *, strict: bool) -> None:
    """End the test as the cell ended."""
    if unexpected(cell, strict):
        pytest.fail(describe(cell), pytrace=False)
    if cell.outcome is Outcome.SKIP:
        pytest.skip(f"{cell.reason_code}: {one_line(cell.detail)}")
    if cell.outcome is Outcome.XFAIL:
        pytest.xfail(one_line(cell.expectation or ""))


def describe(cell: Cell) -> str:
    """What was found, as the terminal's table says it."""
    found = f"{cell.outcome} {cell.fault or ''}".strip()
    return (
        f"{cell.key}: {found}: {one_line(cell.detail)}\n"
        f"  expected: {cell.expected}\n  actual:   {cell.actual}\n"
        f"  tolerance: {cell.tolerance}, log: {cell.log}:{cell.log_line}\n  repro: {cell.repro}"
    )
