from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from matrix.errors import JournalError
from matrix.faults import Fault, Phase, Severity
from matrix.results import (
    Cell,
    Found,
    Journal,
    Outcome,
    Reason,
    RunHeader,
    StartLine,
    latest,
    merge,
    read,
)
from matrix.results._json import legal

Make = Callable[..., Any]

START = StartLine(
    run_id="r1",
    engine="transformers",
    engine_version="0.1.0",
    pair="p",
    settings="main",
    seconds=1.5,
    outcome=Outcome.PASS,
    rss_mb=800.0,
)


def written(path: Path, *lines: RunHeader | StartLine | Cell) -> Path:
    with Journal(path) as journal:
        for line in lines:
            journal.write(line)
    return path


def test_what_is_written_is_read(tmp_path: Path, make_cell: Make, make_header: Make) -> None:
    cell = make_cell(Fault.TAP_GUESS, example=[1, 2], metrics={"rows": 3}, log="logs/a.log")
    written(tmp_path / "run", make_header(), START, cell)
    for path in (tmp_path / "run", tmp_path / "run" / "journal.jsonl"):
        record = read(path)
        assert record.headers == [make_header()]
        assert record.starts == [START]
        assert record.cells == [cell]
        assert record.problems == []
        assert record.folders == {"r1": tmp_path / "run"}


founds = st.builds(
    Found,
    label=st.sampled_from(Fault),
    severity=st.sampled_from(Severity),
    phase=st.sampled_from(Phase),
    example=st.lists(st.integers()) | st.none(),
    evidence=st.text(),
)
plain_values = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers())
cells = st.builds(
    Cell,
    **dict.fromkeys(
        ["run_id", "time", "engine", "engine_version", "settings", "dtype", "pair", "pair_kind"],
        st.text(max_size=20),
    ),
    **dict.fromkeys(["target", "draft", "arch", "tier", "clause", "detail", "repro"], st.text()),
    clause_version=st.integers(0, 99),
    outcome=st.sampled_from(Outcome),
    reason_code=st.none() | st.sampled_from(Reason),
    fault=st.none() | st.sampled_from(Fault),
    faults=st.lists(founds, max_size=3),
    expected=plain_values,
    actual=plain_values,
    tolerance=st.none() | st.floats(allow_nan=False),
    margin=st.none() | st.floats(allow_nan=False),
    example=plain_values,
    metrics=st.dictionaries(st.text(), plain_values, max_size=3),
    seconds=st.floats(0, 1e6),
    log_line=st.none() | st.integers(0, 10**6),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cell=cells)
def test_any_cell_survives_the_journal(tmp_path: Path, make_header: Make, cell: Cell) -> None:
    path = tmp_path / "journal.jsonl"
    path.unlink(missing_ok=True)
    record = read(written(path, make_header(), cell))
    assert record.problems == []
    assert legal(record.cells[0]) == legal(cell)


def test_numbers_that_json_lacks(tmp_path: Path, make_cell: Make, make_header: Make) -> None:
    cell = make_cell(margin=math.inf, tolerance=math.nan, actual=math.nan)
    path = written(tmp_path, make_header(), cell)
    for line in (path / "journal.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)
    back = read(path).cells[0]
    assert back.margin == math.inf
    assert back.tolerance is not None
    assert math.isnan(back.tolerance)
    assert back.actual == "nan"


def test_secrets_are_hidden(
    tmp_path: Path, make_cell: Make, make_header: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", 'hf_"quoted"\\secret')
    secret = 'hf_"quoted"\\secret'
    cell = make_cell(
        detail=f"token {secret}",
        metrics={secret: [f"https://u:{secret}@h"]},
        repro="curl https://user:pw@example.org",
    )
    text = (written(tmp_path, make_header(), cell) / "journal.jsonl").read_text()
    assert "quoted" not in text
    assert "user:pw" not in text
    assert read(tmp_path).cells[0].detail == "token ***"


def test_threads_never_mix_lines(tmp_path: Path, make_cell: Make, make_header: Make) -> None:
    with Journal(tmp_path) as journal:
        journal.write(make_header())

        def work(name: str) -> None:
            for i in range(50):
                journal.write(make_cell(pair=name, clause=f"C-{i}", detail="x" * 5000))

        threads = [threading.Thread(target=work, args=(f"p{i}",)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    record = read(tmp_path)
    assert record.problems == []
    assert len({cell.key for cell in record.cells}) == 300


def test_a_killed_writer_leaves_what_it_wrote(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import sys, time
        from pathlib import Path
        from matrix.results import Journal, RunHeader
        header = RunHeader(schema=1, run_id="r", time="t", engines={}, harness="0", commit=None,
                           device="cpu", driver=None, seed=0, settings={})
        with Journal(Path(sys.argv[1])) as journal:
            journal.write(header)
            print("written", flush=True)
            time.sleep(60)
        """
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "written\n"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert read(tmp_path).headers[0].run_id == "r"


def test_a_half_written_last_line(tmp_path: Path, make_cell: Make, make_header: Make) -> None:
    path = tmp_path / "journal.jsonl"
    written(path, make_header(), make_cell(detail="first"), make_cell(detail="käse"))
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex("ä".encode()) + 1])  # inside one character
    record = read(path)
    assert [cell.detail for cell in record.cells] == ["first"]
    assert record.problems == ["journal.jsonl:3: half-written last line dropped"]

    written(path, make_cell(detail="after"))  # a run that is resumed
    record = read(path)
    assert [cell.detail for cell in record.cells] == ["first", "after"]
    assert len(record.problems) == 1
    assert record.problems[0].startswith("journal.jsonl:3: line skipped: ")


@pytest.mark.parametrize(
    "bad", ["{broken", "[1]", '{"kind":"cell"}', "\x00\xff", "9" * 5000, "[" * 100_000]
)
def test_a_bad_line_in_the_middle_is_noted(
    tmp_path: Path, make_cell: Make, make_header: Make, bad: str
) -> None:
    path = written(tmp_path / "journal.jsonl", make_header())
    with path.open("a", encoding="latin-1") as file:
        file.write(f"{bad}\n")
    written(path, make_cell())
    record = read(path)
    assert record.cells == [make_cell()]
    assert [problem.split(":")[1] for problem in record.problems] == ["2"]
    assert "\n" not in record.problems[0]


def test_unknown_fields_and_kinds_are_ignored(
    tmp_path: Path, make_cell: Make, make_header: Make
) -> None:
    path = tmp_path / "journal.jsonl"
    lines = [legal(make_header()) | {"weather": "fine"}, {"kind": "note", "text": "hello"}]
    lines.append(legal(make_cell()) | {"colour": {"deep": [1]}})
    path.write_text("\n".join([*map(json.dumps, lines), "", ""]))
    record = read(path)
    assert (record.headers, record.cells) == ([make_header()], [make_cell()])
    assert record.problems == []


def test_very_long_lines(tmp_path: Path, make_cell: Make, make_header: Make) -> None:
    written(tmp_path, make_header(), make_cell(detail="x" * 10_000_000), make_cell(pair="next"))
    assert [len(cell.detail) for cell in read(tmp_path).cells] == [10_000_000, 0]


def refused(path: Path) -> str:
    with pytest.raises(JournalError) as caught:
        read(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_what_is_refused(tmp_path: Path, make_cell: Make, make_header: Make) -> None:
    assert "No such file" in refused(tmp_path / "nowhere")
    newer = legal(make_header()) | {"schema": 2, "shape": "unknown"}
    del newer["seed"]
    (tmp_path / "newer.jsonl").write_text(json.dumps(newer) + "\n")
    assert "schema 2 is newer than 1" in refused(tmp_path / "newer.jsonl")
    written(tmp_path / "headless.jsonl", make_cell())
    assert "no `run` header" in refused(tmp_path / "headless.jsonl")
    (tmp_path / "empty.jsonl").touch()
    assert "no `run` header" in refused(tmp_path / "empty.jsonl")
    (tmp_path / "picture.png").write_bytes(os.urandom(4096))
    assert "no `run` header" in refused(tmp_path / "picture.png")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line(tmp_path: Path, make_header: Make) -> None:
    (tmp_path / "journal.jsonl").symlink_to("/dev/full")
    with Journal(tmp_path) as journal, pytest.raises(JournalError) as caught:
        journal.write(make_header())
    assert "No space left on device" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_line_after_a_torn_one_stands_alone(
    tmp_path: Path, make_cell: Make, make_header: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, space = os.write, [10**9]

    def write(file: int, data: bytes) -> int:
        if not space[0]:
            raise OSError(28, "No space left on device")
        written = real(file, data[: space[0]])
        space[0] -= written
        return written

    monkeypatch.setattr(os, "write", write)
    with Journal(tmp_path) as journal:
        journal.write(make_header())
        space[0] = 100
        with pytest.raises(JournalError):
            journal.write(make_cell(detail="torn"))
        space[0] = 10**9
        journal.write(make_cell(detail="whole"))
    record = read(tmp_path)
    assert [cell.detail for cell in record.cells] == ["whole"]
    assert len(record.problems) == 1


def test_where_no_journal_can_be(tmp_path: Path, make_header: Make) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="can't be written"), Journal(tmp_path / "file" / "run"):
        pass
    journal = Journal(tmp_path / "later")
    with pytest.raises(JournalError, match="closed"):
        journal.write(make_header())


def test_merge_and_latest(tmp_path: Path, make_cell: Make, make_header: Make) -> None:
    first = written(tmp_path / "a", make_header(), make_cell(), make_cell(pair="other"))
    again = make_cell(run_id="r2", outcome=Outcome.FAIL)
    second = written(tmp_path / "b", make_header(run_id="r2"), again)
    record = merge([read(first), read(second)])
    assert record.folders == {"r1": first, "r2": second}
    assert len(record.cells) == 3
    assert list(latest(record.cells)) == [again, make_cell(pair="other")]
    assert msgspec.structs.asdict(record.headers[1])["run_id"] == "r2"
