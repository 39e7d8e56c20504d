"""Diffs, SARIF, annotations, the command line and the committed table."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import pytest
from small_engine import Write, only

from matrix.errors import UsageError
from matrix.faults import GIVES
from matrix.scan import ScanResult, compare, load_result, open_source, register, scan, support
from matrix.scan._output import as_json, placed_in, sarif, text, workflow_commands
from matrix.scan._support import folder, load_table, release_of
from matrix.scan._support import text as answer_text

LLAMA = "sglang/srt/models/llama.py"
NO_HOOK = {LLAMA: ("def set_dflash_layers_to_capture", "def something_else")}


def run(*argv: str | Path) -> int:
    parser = argparse.ArgumentParser()
    register(parser.add_subparsers())
    args = parser.parse_args([str(arg) for arg in argv])
    code = args.handler(args)
    assert isinstance(code, int)
    return code


def scanned(root: Path) -> ScanResult:
    with open_source(root) as source:
        return scan(source)


def test_the_json_has_the_promised_keys(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("scan", "--source", write("sglang", NO_HOOK), "--json") == 1
    said = json.loads(capsys.readouterr().out)
    assert set(said) == {"engine", "version", "source", "architectures", "unregistered", "errors"}
    (arch,) = said["architectures"]
    assert set(arch) == {
        "arch",
        "module",
        "class",
        "body",
        "hook",
        "inherited_from",
        "captures",
        "findings",
        "unknown",
    }
    assert set(arch["hook"]) == {"dflash", "dspark", "eagle3"}
    assert set(arch["captures"]) == {"before", "after", "final", "enters"}
    keys = {"rule", "fault", "severity", "file", "line", "message", "fix"}
    assert all(set(finding) == keys for finding in arch["findings"])


def test_fail_on_decides_the_exit_code(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    guard = write("sglang", {LLAMA: ("if layer_ids is None:", "if self.broken:")})
    assert run("scan", "--source", guard) == 0
    assert run("scan", "--source", guard, "--fail-on", "guard") == 1
    assert run("scan", "--source", write("sglang", NO_HOOK, "b"), "--fail-on", "never") == 0
    assert "SRC-NONE-UNCHECKED" in capsys.readouterr().out


def test_a_file_left_out_wins_over_findings(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write("sglang", NO_HOOK | {"sglang/srt/models/broken.py": "EntryClass = (\n"})
    assert run("scan", "--source", root) == 2
    said = capsys.readouterr()
    assert said.err.startswith("sglang/srt/models/broken.py: line 1: ")
    assert len(said.err.splitlines()) == 1
    assert "SRC-HOOK-MISSING" in said.out


def test_an_arch_that_matches_nothing(write: Write) -> None:
    with pytest.raises(UsageError, match=r"--arch Nope\*: no architecture"):
        run("scan", "--source", write("sglang", {}), "--arch", "Nope*")


def test_lost_and_gained(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = write("sglang", {}, "old"), write("sglang", NO_HOOK, "new")
    assert run("scan", "--diff", old, new) == 1
    said = capsys.readouterr().out
    assert "lost  hook dflash: LlamaForCausalLM" in said
    assert "SRC-HOOK-MISSING" in said
    assert run("scan", "--diff", new, old) == 0
    said = capsys.readouterr().out
    assert "gained  hook dflash: LlamaForCausalLM" in said
    assert "repaired  SRC-HOOK-MISSING: LlamaForCausalLM" in said


def test_a_diff_of_equals_says_so(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    root = write("sglang", NO_HOOK)
    assert run("scan", "--diff", root, root) == 0, "an old finding is nothing new"
    assert "nothing gained, nothing lost" in capsys.readouterr().out


def test_a_moved_finding_is_not_new(write: Write) -> None:
    old = scanned(write("sglang", NO_HOOK, "old"))
    moved = {LLAMA: ("from torch import nn", "from torch import nn\n\n\n")}
    text_ = (Path(old.source) / LLAMA).read_text()
    new = scanned(write("sglang", {LLAMA: text_.replace(*moved[LLAMA])}, "new"))
    diff = compare(old, new)
    assert (diff.lost, diff.gained, diff.new_findings, diff.fixed_findings) == ([], [], [], [])


def test_an_architecture_that_goes_is_lost_with_its_hook(write: Write) -> None:
    old = scanned(write("sglang", {}, "old"))
    gone = {LLAMA: "class Other: ...\nEntryClass = Other\n"}
    new = scanned(write("sglang", gone, "new"))
    assert [(c.arch, c.what) for c in compare(old, new).lost] == [
        ("LlamaForCausalLM", "hook dflash, with the architecture")
    ]


def test_unknown_is_neither_gained_nor_lost(write: Write) -> None:
    old = scanned(write("sglang", {}, "old"))
    new = scanned(
        write(
            "sglang",
            {
                LLAMA: (
                    "(nn.Module):\n    def __init__(self, config):\n        self.model",
                    "(computed()):\n    def __init__(self, config):\n        self.model",
                )
            },
            "new",
        )
    )
    hook = ("def set_dflash_layers_to_capture", "def something_else")
    file = Path(new.source) / LLAMA
    file.write_text(file.read_text().replace(*hook))
    new = scanned(Path(new.source))
    assert only(new, "LlamaForCausalLM").hook["dflash"] == "unknown"
    assert compare(old, new).lost == []


def test_scan_json_is_a_side_of_a_diff(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "old.json"
    kept.write_text(as_json(scanned(write("sglang", {}, "old"))))
    assert load_result(kept).engine == "sglang"
    assert run("scan", "--diff", kept, write("sglang", NO_HOOK, "new"), "--json") == 1
    assert json.loads(capsys.readouterr().out)["lost"] == [
        {"arch": "LlamaForCausalLM", "what": "hook dflash"}
    ]


def test_a_diff_of_two_engines_is_a_usage_error(write: Write) -> None:
    with pytest.raises(UsageError, match="give one engine twice"):
        run("scan", "--diff", write("sglang", {}, "a"), write("vllm", {}, "b"))


def test_sarif_has_one_result_per_place(write: Write, tmp_path: Path) -> None:
    two = {
        LLAMA: (
            "EntryClass = [LlamaForCausalLM]",
            "class Phi(LlamaForCausalLM): ...\nEntryClass = [LlamaForCausalLM, Phi]",
        ),
    }
    root = write("sglang", two)
    file = root / LLAMA
    file.write_text(file.read_text().replace("[val + 1 for val in layer_ids]", "layer_ids"))
    out = tmp_path / "scan.sarif"
    assert run("scan", "--source", root, "--sarif", out, "--fail-on", "wrong") == 1
    log = json.loads(out.read_text())
    assert log["version"] == "2.1.0"
    (result,) = log["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("SRC-TAP-SHIFT", "warning")
    assert result["properties"]["architectures"] == ["LlamaForCausalLM", "Phi"]
    where = result["locations"][0]["physicalLocation"]
    assert where["artifactLocation"]["uri"] == LLAMA
    assert where["region"]["startLine"] == 31
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert rules[result["ruleIndex"]]["id"] == "SRC-TAP-SHIFT"


def test_a_sarif_fingerprint_outlives_a_moved_line(write: Write) -> None:
    old = scanned(write("sglang", NO_HOOK, "a"))
    source = (Path(old.source) / LLAMA).read_text()
    new = scanned(write("sglang", {LLAMA: "\n\n" + source}, "b"))

    def print_of(result: ScanResult) -> tuple[str, int]:
        (found,) = json.loads(sarif(placed_in(result), "1.0"))["runs"][0]["results"]
        line = found["locations"][0]["physicalLocation"]["region"]["startLine"]
        return found["partialFingerprints"]["place/v1"], line

    (first, line), (second, moved) = print_of(old), print_of(new)
    assert first == second
    assert moved == line + 2


def test_annotations_are_workflow_commands_with_the_checkouts_paths(write: Write) -> None:
    placed = placed_in(scanned(write("sglang", NO_HOOK)))
    (line,) = workflow_commands(placed, "python/").splitlines()
    assert line.startswith(f"::error file=python/{LLAMA},line=19,title=SRC-HOOK-MISSING ")
    assert "%3A" not in line.partition("::error ")[2].rpartition("::")[2]


def test_a_diff_annotates_what_is_new_only(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = write("sglang", NO_HOOK, "old"), write("sglang", NO_HOOK, "new")
    run("scan", "--diff", old, new, "--annotate")
    assert "::error" not in capsys.readouterr().out
    run("scan", "--diff", write("sglang", {}, "healthy"), new, "--annotate")
    assert capsys.readouterr().out.count("::error") == 1


def test_the_text_names_counts_findings_and_repairs(write: Write) -> None:
    said = text(scanned(write("sglang", NO_HOOK)))
    assert "sglang: 1 architectures" in said
    assert "dflash  0 offered, 1 missing, 0 unknown" in said
    assert f"dies  SRC-HOOK-MISSING  {LLAMA}:19  LlamaForCausalLM" in said
    assert "repair: " in said


def test_a_release_keeps_what_support_asks_for(write: Write) -> None:
    result = scanned(write("sglang", NO_HOOK))
    result.version = "1.0"
    table = load_table("sglang", Path("/nonexistent"))
    row = release_of(table, result)
    again = release_of(table, result)
    assert row == again
    assert len(table.faults) == 1, "a fault stands once in a table"
    assert row.architectures["LlamaForCausalLM"].hook == "mmm"


# The committed scans of real releases.


def states(arch: str, engine: str) -> dict[str, tuple[str, set[str]]]:
    (answer,) = support(arch, [engine])
    return {row.version: (row.hook, {f.rule for f in row.faults}) for row in answer.releases}


def test_the_history_of_qwen3_next_on_vllm() -> None:
    rows = states("Qwen3NextForCausalLM", "vllm")
    before = ["0.20.0", "0.20.1", "0.20.2", "0.21.0", "0.22.0", "0.22.1", "0.23.0"]
    assert all(rows[version] == ("missing", {"SRC-HOOK-MISSING"}) for version in before)
    after = [version for version in rows if version not in before]
    assert "0.24.0" in after
    assert "0.32.0" in after
    for version in after:
        hook, found = rows[version]
        assert hook == "offered"
        assert found <= {"SRC-TAP-UNCHECKED", "SRC-PP-SILENT"}
    assert support("Qwen3NextForCausalLM", ["vllm"])[0].first == "0.24.0"


def test_the_history_of_the_text_only_qwen3_5_wrapper_on_sglang() -> None:
    rows = states("Qwen3_5ForCausalLM", "sglang")
    three = {"SRC-HOOK-MISSING", "SRC-TAP-SHIFT", "SRC-HOOK-SHADOWED"}
    assert rows["0.5.16"][0] == "not registered"
    assert rows["0.5.17"][1] & three == {"SRC-HOOK-MISSING"}
    assert rows["0.5.18"][1] & three == {"SRC-TAP-SHIFT"}
    for version in ("0.5.19", "0.5.20", "0.5.21"):
        assert rows[version][1] & three == {"SRC-HOOK-SHADOWED", "SRC-TAP-SHIFT"}
    for version in ("0.5.22", "0.5.23"):
        assert rows[version][1] & three == set()
    assert support("Qwen3_5ForCausalLM", ["sglang"])[0].first == "0.5.22"


def test_vllm_read_dflash_ids_one_layer_too_early_up_to_0_21() -> None:
    rows = states("Qwen3ForCausalLM", "vllm")
    shifted = {version for version, (_, found) in rows.items() if "SRC-TAP-SHIFT" in found}
    assert shifted == {"0.20.0", "0.20.1", "0.20.2", "0.21.0"}


def test_support_answers_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("support", "Qwen3NextForCausalLM") == 0
    said = capsys.readouterr().out
    assert "vllm: Qwen3NextForCausalLM since 0.24.0" in said
    assert "0.20.0 - 0.23.0        missing         SRC-HOOK-MISSING (dies)" in said
    assert run("support", "Qwen3NextForCausalLM", "--engine", "vllm", "--json") == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert (answer["engine"], answer["first"]) == ("vllm", "0.24.0")


def test_support_for_an_unknown_architecture_offers_close_names() -> None:
    with pytest.raises(UsageError, match="Qwen3NextForCausalLM"):
        run("support", "Qwen3NextForCausualLM")


def test_an_answer_says_when_support_went_away() -> None:
    (answer,) = support("Qwen3_5ForCausalLM", ["sglang"])
    assert answer_text(answer).startswith("sglang: Qwen3_5ForCausalLM since 0.5.22\n")
    answer.supported = False
    assert ", but " in answer_text(answer).splitlines()[0]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_committed_tables_hold_many_releases(engine: str) -> None:
    table = load_table(engine)
    assert (folder() / f"{engine}.json").stat().st_size < 4 << 20
    assert len(table.releases) >= 15
    assert all(len(release.architectures) > 150 for release in table.releases)


def test_the_documentation_names_every_rule_label_and_severity() -> None:
    page = (Path(__file__).parents[3] / "docs" / "scan.md").read_text(encoding="utf-8")
    for rule, labels in GIVES.items():
        if rule.startswith("SRC-"):
            row = page.partition(f"| `{rule}` |")[2]
            assert row, f"docs/scan.md should have a row for {rule}"
            for label, severity in labels.items():
                assert f"`{label.value}`" in page
                assert row.lstrip().startswith(severity.value)


def test_the_pre_commit_hook_and_the_action_run_this_command() -> None:
    root = Path(__file__).parents[3]
    assert "entry: dflash-matrix scan --source ." in (root / ".pre-commit-hooks.yaml").read_text()
    action = (root / "action.yml").read_text()
    for option in set(re.findall(r"--[a-z-]+", action)) - {"--quiet", "--depth", "--detach"}:
        assert option in ("--fail-on", "--annotate", "--engine", "--sarif", "--source", "--diff")
