"""The command line, as real processes: exit codes, one line for bad input, and the drills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from running import below, cli, injected, rows_file, started

from matrix.cli import main
from matrix.results import Outcome, read

RUN = ("run", "tiny", "--engine", "transformers", "--registry", "rows.toml")
QUICK = ("--clause", "START-LOAD", "--clause", "START-SPEC", "--clause", "TAP-ORDER")
SORTED = "resolve=lambda ids: sorted(fake_engine.strict(ids))"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with two rows and a fake engine to inject."""
    rows_file(tmp_path, "tiny", "tiny-too")
    injected(tmp_path)
    return tmp_path


def journal_of(folder: Path) -> Path:
    (found,) = (folder / "reports").glob("*/journal.jsonl")
    return found


def healthy(folder: Path) -> tuple[str, ...]:
    return ("--inject", str(injected(folder)))


# --- exit codes --------------------------------------------------------------------------------


def test_0_as_expected_with_table_journal_and_report(here: Path) -> None:
    done = cli(here, *RUN, *QUICK, *healthy(here))
    assert (done.returncode, done.stderr) == (0, "")
    journal = journal_of(here)
    assert f"journal {journal.relative_to(here)}" in done.stdout
    assert (journal.parent / "report.html").stat().st_size > 1000
    assert "START-SPEC" in (journal.parent / "report.html").read_text()
    record = read(journal)
    assert record.problems == []
    judged = {c.clause: c.outcome for c in record.cells if c.reason_code != "filtered"}
    assert judged == dict.fromkeys(("START-LOAD", "START-SPEC", "TAP-ORDER"), Outcome.PASS)


def test_1_something_unexpected_and_its_repro_line_shows_it_again(here: Path) -> None:
    done = cli(here, *RUN, *QUICK, "--inject", str(injected(here, SORTED)), "--json")
    assert done.returncode == 1
    shown = json.loads(done.stdout)
    assert shown["exit_code"] == 1
    (red,) = [cell for cell in shown["cells"] if cell["outcome"] == "fail"]
    assert (red["clause"], red["fault"]) == ("TAP-ORDER", "tap-order")
    script = here / "bin" / "dflash-matrix"
    script.parent.mkdir()
    from running import command

    words, env = command(here)
    script.write_text(f"#!{words[0]}\n{words[2]}\n")
    script.chmod(0o755)
    again = subprocess.run(
        ["sh", "-c", red["repro"] + " --json --out again"],
        capture_output=True,
        text=True,
        check=False,
        cwd=here,
        env={**env, "PATH": f"{script.parent}:{env['PATH']}"},
    )
    assert again.returncode == 1, again.stderr
    (replayed,) = [c for c in json.loads(again.stdout)["cells"] if c["outcome"] == "fail"]
    assert (replayed["fault"], replayed["example"]) == (red["fault"], red["example"])
    assert replayed["metrics"]["examples"] == 1


def test_warnings_are_red_with_strict_alone(here: Path) -> None:
    leaky = str(injected(here, "set_ids=lambda old, new: sorted({*old, *new})"))
    lax = cli(here, *RUN, "--clause", "TAP-RECONF", "--inject", leaky)
    strict = cli(here, *RUN, "--clause", "TAP-RECONF", "--inject", leaky, "--strict")
    assert (lax.returncode, strict.returncode) == (0, 1)


def test_an_expected_failure_is_0_and_one_that_is_gone_is_1(here: Path) -> None:
    with (here / "rows.toml").open("a") as rows:
        rows.write(
            '[[expectation]]\nengine = "transformers"\nversion = ">=0"\npair = "tiny"\n'
            'clause = "TAP-ORDER"\nfault = "tap-order"\nreason = "sorted"\n'
            'link = "https://example.org/1"\n'
        )
    only = ("--clause", "TAP-ORDER")
    assert cli(here, *RUN, *only, "--inject", str(injected(here, SORTED))).returncode == 0
    gone = cli(here, *RUN, *only, *healthy(here))
    assert gone.returncode == 1
    assert cli(here, *RUN, *only, *healthy(here), "--xpass", "warn").returncode == 0


def test_3_everything_was_skipped_with_the_line_that_installs_it(here: Path) -> None:
    missing = here / "missing.py"
    missing.write_text("import matrix.engines._worker as w\nw.SERVED['transformers'] = 'nope:X'")
    done = cli(here, *RUN, *QUICK, "--inject", str(missing))
    assert done.returncode == 3
    assert "pip install 'dflash-matrix[embedded]'" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


# --- bad input: exit code 2, one line ------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--example", "{not json"), "--example: not JSON"),
        (("--timeout", "call=soon"), "--timeout: call=soon: not a number"),
        (("--timeout", "step=5"), "NAME one of start, call, clause, row"),
        (("--clause", "TAPE-*"), "--clause TAPE-*: no such clause"),
        (("--python", "transformers=/no/such/python"), "--python transformers=/no/such/python"),
        (("--python", "/usr/bin/python3"), "no engine '/usr/bin/python3'; there is transformers"),
        (("--python", "transformers=/etc/passwd"), "of an interpreter that can be run"),
        (("--example", "[1, 2]"), "--example: want an object"),
        (("--example", "null"), "--example: want an object"),
        (("--example", '{"prompt": []}'), "a prompt is a list of token ids"),
        (("--example", '{"accept": [-5]}'), "accept is a list of accepted counts"),
        (("--example", '{"idz": [1]}'), "no key 'idz'"),
        (("--timeout", "call=inf"), "--timeout: call=inf"),
        (("--inject", "no-such.py"), "--inject no-such.py: no such file"),
        (("--registry", "no-such.toml"), "no-such.toml"),
        (("--out", "rows.toml/below"), "journal can't be written"),
        (("tinny",), "no pair matches 'tinny'; nearest: tiny"),
    ],
)
def test_2_bad_input_is_told_in_one_line(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: tuple[str, ...],
    words: str,
) -> None:
    monkeypatch.chdir(here)
    pair = () if args == ("tinny",) else ("tiny",)
    code = main(["run", *pair, "--engine", "transformers", "--registry", "rows.toml", *args])
    said = capsys.readouterr()
    assert code == 2
    assert words in said.err
    assert said.err.startswith("dflash-matrix: ")
    assert said.err.count("\n") == 1, said.err
    assert said.out == ""


def test_2_a_folder_that_cannot_be_written(here: Path) -> None:
    # Not by its mode, which means nothing to root.
    done = cli(here, *RUN, *QUICK, *healthy(here), "--out", "/proc/no/such")
    assert done.returncode == 2
    assert done.stderr.startswith("dflash-matrix: ")
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("--engine", "vlm"),
        ("--engine", "transformers", "--max-examples", "0"),
        ("--engine", "transformers", "--slots", "-1"),
        ("--engine", "transformers", "--dtype", "int8"),
        (),
    ],
)
def test_2_is_what_the_parser_says_too(
    args: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["run", *args])
    assert left.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_a_registry_row_at_fault_is_named_with_file_row_and_field(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    bad = (here / "rows.toml").read_text().replace("block_size = 8", 'block_size = "8"', 1)
    (here / "rows.toml").write_text(bad)
    assert main(["list", "--registry", "rows.toml"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "rows.toml: tiny: block_size: " in said


# --- what is broken off ------------------------------------------------------------------------


def wait_for(folder: Path, words: str, seconds: float = 60.0) -> Path:
    """Until a run's journal holds these words."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for journal in (folder / "reports").glob("*/journal.jsonl"):
            if words in journal.read_text():
                return journal
        time.sleep(0.05)
    raise AssertionError(f"{words!r} is in no journal after {seconds:g} s")


def left_of(pids: list[int], seconds: float = 15.0) -> list[int]:
    """Which of them are still alive after a while."""

    def alive(pid: int) -> bool:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] != "Z"

    until = time.monotonic() + seconds
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < until:
        time.sleep(0.05)
    return left


HANGING = "drafting=lambda m: time.sleep(600)"


@pytest.mark.parametrize("slots", ["1", "2"])
def test_130_an_interrupted_run_shows_what_it_has_and_leaves_nothing(
    here: Path, slots: str
) -> None:
    hanging = str(injected(here, HANGING))
    pairs = ("run", "tiny*", *RUN[2:])
    with started(here, *pairs, *QUICK, "--inject", hanging, "--slots", slots) as run:
        journal = wait_for(here, '"clause":"START-LOAD"')
        time.sleep(1.0)
        workers = below(run.pid)
        assert len(workers) >= 2, "a guard and its worker"
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=30)
    assert run.returncode == 130, err
    assert "Traceback" not in err
    assert err.splitlines()[-1] == "dflash-matrix: interrupted"
    assert left_of(workers) == []
    cells = [cell for cell in read(journal).cells if cell.reason_code != "filtered"]
    assert {(cell.clause, cell.outcome) for cell in cells} == {("START-LOAD", Outcome.PASS)}
    assert f"journal {journal.relative_to(here)}" in out
    assert (journal.parent / "report.html").exists()


def test_a_killed_driver_leaves_its_journal_and_no_process(here: Path) -> None:
    hanging = str(injected(here, HANGING))
    with started(here, *RUN, *QUICK, "--inject", hanging) as run:
        journal = wait_for(here, '"clause":"START-LOAD"')
        workers = below(run.pid)
        assert len(workers) >= 2
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        assert left_of(workers) == []
    record = read(journal)
    assert record.problems == []
    cells = [cell for cell in record.cells if cell.reason_code != "filtered"]
    assert [(cell.clause, cell.outcome) for cell in cells] == [("START-LOAD", Outcome.PASS)]
    built = cli(here, "report", str(journal), "--out", "after.html")
    assert (built.returncode, built.stderr) == (0, "")
    assert "START-LOAD" in (here / "after.html").read_text()


# --- the other commands ------------------------------------------------------------------------


def test_clauses_are_listed_with_what_they_give(capsys: pytest.CaptureFixture[str]) -> None:
    from matrix import contract, preflight

    assert main(["clauses", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    known = [*contract.CLAUSES, *preflight.CLAUSES]
    assert [row["id"] for row in rows] == known
    given = {row["id"]: row["faults"] for row in rows}
    assert given["TAP-RECONF"]["tap-leak"] == given["CFG-LAST"]["config-mismatch"] == "guard"
    assert all(row["sentence"].endswith(".") for row in rows)
    assert main(["clauses"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(known)


def test_pairs_are_listed_by_name_kind_and_glob(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    assert main(["list", "TINY*", "--registry", "rows.toml", "--json"]) == 0
    assert [row["key"] for row in json.loads(capsys.readouterr().out)] == ["tiny", "tiny-too"]
    assert main(["list", "--kind", "real"]) == 0
    assert "synthetic" not in capsys.readouterr().out


def test_a_reader_that_leaves_early_is_no_error(here: Path) -> None:
    from running import command

    words, env = command(here, "list")
    lister = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=here, env=env
    )
    assert lister.stdout is not None
    assert lister.stderr is not None
    lister.stdout.close()
    said = lister.stderr.read()
    lister.stderr.close()
    assert (lister.wait(), said) == (0, b"")


def test_two_runs_are_compared(here: Path) -> None:
    cli(here, *RUN, *QUICK, *healthy(here), "--out", "old")
    cli(here, *RUN, *QUICK, "--inject", str(injected(here, SORTED)), "--out", "new")
    old, new = ("/".join(next((here / name).iterdir()).parts[-2:]) for name in ("old", "new"))
    same = cli(here, "diff", old, old)
    broke = cli(here, "diff", old, new)
    assert (same.returncode, broke.returncode) == (0, 1)
    assert broke.stdout.splitlines()[-1].startswith(
        "broken    transformers[main]:float32/tiny/TAP-ORDER"
    )
    shown = json.loads(cli(here, "diff", old, new, "--json").stdout)
    assert [change["subject"][-1] for change in shown["broken"]] == ["TAP-ORDER"]
