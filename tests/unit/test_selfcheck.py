"""The score of drills that are made up, and what the command refuses. Real ones: `tests/meta`."""

from __future__ import annotations

from pathlib import Path

import pytest

from matrix.cli import main
from matrix.faults import Fault, severity_of
from matrix.results import Cell, Found, Outcome, Stray
from matrix.selfcheck import Drilled, score, score_text

TABLE = {
    "low": {"AUX-VALUE": "tap-shift-1", "TAP-VALID": "tap-shift-1"},
    "dead": {"AUX-LONG": "crash"},
}


def cell(clause: str, outcome: Outcome = Outcome.PASS, fault: Fault | None = None) -> Cell:
    return Cell(
        run_id="r",
        time="t",
        engine="transformers",
        engine_version="0.1.0",
        settings="main",
        dtype="float32",
        pair="tiny-qwen3",
        pair_kind="synthetic",
        target="t",
        draft="d",
        arch="Qwen3ForCausalLM",
        tier="cpu",
        clause=clause,
        clause_version=1,
        outcome=outcome,
        fault=fault,
        faults=[Found(fault, severity_of(clause, fault))] if fault else [],
    )


def red(clause: str, fault: Fault) -> Cell:
    return cell(clause, Outcome.FAIL, fault)


LOW = Fault.TAP_SHIFT_BEFORE
GOOD = (
    Drilled("low", False, [red("AUX-VALUE", LOW), red("TAP-VALID", LOW), cell("AUX-LONG")]),
    Drilled("dead", False, [cell("AUX-VALUE"), cell("AUX-LONG", Outcome.CRASH), cell("OUTPUT-K")]),
    Drilled("slow", True, [cell("AUX-VALUE"), cell("AUX-LONG"), cell("HOOK-PP", Outcome.SKIP)]),
)


def test_everything_caught_and_named() -> None:
    found = score("transformers", GOOD, TABLE)
    assert found.planted == found.caught == found.named == ["low", "dead"]
    assert found.harmless == ["slow"]
    assert found.missed == found.misnamed == found.false_alarms == []
    assert found.never_red == ["OUTPUT-K"], "a skipped clause wasn't judged"
    assert not found.failed
    assert "caught        2 of 2" in score_text(found)
    assert score_text(found).endswith("never red     OUTPUT-K")


def test_a_clause_that_stayed_green_is_a_miss() -> None:
    found = score("transformers", [Drilled("low", False, [red("AUX-VALUE", LOW)])], TABLE)
    assert found.missed == [Stray("low", "TAP-VALID", "tap-shift-1", None)]
    assert (found.caught, found.named, found.failed) == ([], [], True)
    assert "missed: low: TAP-VALID: expected tap-shift-1, actual green" in score_text(found)


def test_another_label_is_a_wrong_name_and_unknown_is_none() -> None:
    def drilled(fault: Fault) -> Drilled:
        return Drilled("low", False, [red("AUX-VALUE", LOW), red("TAP-VALID", fault)])

    wrong = score("transformers", [drilled(Fault.TAP_ORDER)], TABLE)
    assert wrong.misnamed == [Stray("low", "TAP-VALID", "tap-shift-1", "tap-order")]
    assert (wrong.caught, wrong.named, wrong.failed) == (["low"], [], True)
    unknown = score("transformers", [drilled(Fault.UNKNOWN)], TABLE)
    assert (unknown.caught, unknown.named, unknown.failed) == (["low"], [], False)


def test_red_without_a_cause_is_a_false_alarm() -> None:
    beside = Drilled("dead", False, [cell("AUX-LONG", Outcome.CRASH), red("AUX-VALUE", LOW)])
    harmless = Drilled("slow", True, [cell("AUX-LONG", Outcome.TIMEOUT)])
    found = score("transformers", [beside, harmless], TABLE)
    assert found.false_alarms == [
        Stray("dead", "AUX-VALUE", None, "tap-shift-1"),
        Stray("slow", "AUX-LONG", None, "timeout"),
    ]
    assert found.caught == found.named == ["dead"]
    assert found.failed


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--fault", "none-such"], "--fault none-such: no such file; there are capture_interferes"),
        (["--engine", "vllm"], "give --python vllm=PATH"),
        (["--python", "vllm=/bin/sh"], "want transformers=PATH"),
        (["--python", "transformers=/none"], "want transformers=PATH"),
    ],
)
def test_bad_input_is_one_line(
    args: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DFLASH_MATRIX_PYTHON_VLLM", raising=False)
    assert main(["selfcheck", *args]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert message in said
