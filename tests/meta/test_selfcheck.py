"""`dflash-matrix selfcheck` on the embedded engine: one fault of each kind, and one harmless change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from matrix.cli import main
from matrix.report import make_report


def test_selfcheck_drills_scores_and_is_shown_by_the_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    chosen = ["--fault", "ids_one_low", "--fault", "worker_killed", "--fault", "clone"]
    code = main(["selfcheck", *chosen, "--json", "--out", str(tmp_path / "drills")])
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert code == 0, said.out
    assert found["planted"] == found["caught"] == found["named"] == ["ids_one_low", "worker_killed"]
    assert found["harmless"] == ["clone"]
    assert found["missed"] == found["misnamed"] == found["false_alarms"] == []
    assert not {"AUX-VALUE", "AUX-LONG"} & set(found["never_red"])
    assert "OUTPUT-K" in found["never_red"]
    assert said.err.splitlines() == ["1/3 ids_one_low", "2/3 worker_killed", "3/3 clone"]

    (tmp_path / "score.json").write_text(said.out)
    journal = tmp_path / "drills" / "ids_one_low"
    page = make_report([journal, tmp_path / "score.json"], tmp_path).page
    assert page.scores[0].good
    assert dict(page.scores[0].facts)["named"] == "2 of 2"
    assert page.injected
    assert any(row.label == "tap-shift-1" for row in page.faults)
