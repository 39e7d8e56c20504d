"""`dflash-matrix import vllm`: a table read without running it, beside the rows."""

from __future__ import annotations

import json

import pytest

from matrix.cli import main
from matrix.errors import SourceError
from matrix.registry import import_vllm, imported_lines, load

CLASS = """
import pytest  # not needed to read the table
raise SystemExit("this file is never run")

@dataclass(frozen=True)
class _HfExamplesInfo:
    default: str
    extras: Mapping[str, str] = field(default_factory=dict)
    tokenizer: str | None = None
    speculative_model: str | None = None

    def check(self):
        return None
"""
SAME = """
    "DFlashDraftModel": _HfExamplesInfo(
        "Qwen/Qwen3-4B", speculative_model="z-lab/Qwen3-4B-DFlash-b16", tokenizer="Qwen/Qwen3-4B"),
    "DFlashQwen3NextDraftModel": _HfExamplesInfo(
        "Qwen/Qwen3-Coder-Next",
        speculative_model="z-lab/Qwen3-Coder-Next-DFlash",
        use_original_num_layers=True, max_model_len=8192, max_num_seqs=32,
        min_transformers_version="4.56.3"),
    "DSparkDraftModel": _HfExamplesInfo("deepseek-ai/DeepSeek-V4-Pro-DSpark"),
    "K3DSparkModel": _HfExamplesInfo(
        "moonshotai/Kimi-K3", speculative_model="Inferact/Kimi-K3-DSpark", trust_remote_code=True),
    "Qwen3OmniDSparkModel": _HfExamplesInfo(
        "Qwen/Qwen3-Omni-30B-A3B-Instruct", {}, None, "Qwen/Qwen3-Omni-30B-A3B-DSpark",
        min_transformers_version="4.57"),
    "MedusaModel": _HfExamplesInfo("a/b", speculative_model="a/medusa"),
"""
REGISTRY = load()


@pytest.fixture
def table(tmp_path):
    def write(entries, head=CLASS):
        path = tmp_path / "registry.py"
        path.write_text(f"{head}\n_SPECULATIVE_DECODING_EXAMPLE_MODELS = {{{entries}}}\n")
        return path

    return write


def test_a_table_that_agrees_gives_nothing_new_changed_or_lost(table):
    found = import_vllm(table(SAME), REGISTRY)
    assert (found.new, found.changed, found.lost) == ((), (), ())
    assert [entry.draft_class for entry in found.entries] == [
        "DFlashDraftModel",
        "DFlashQwen3NextDraftModel",
        "DSparkDraftModel",
        "K3DSparkModel",
        "Qwen3OmniDSparkModel",
    ]
    assert found.others == ("MedusaModel",)
    assert dict(found.entries[-1].unknown) == {"extras": {}}
    assert list(imported_lines(found))[-1].endswith("0 new, 0 changed, 0 lost; 1 of other methods")


def test_a_draft_that_no_row_has_is_new(table):
    entry = '"DFlash2DraftModel": _HfExamplesInfo("a/target", speculative_model="a/draft"),'
    found = import_vllm(table(SAME + entry), REGISTRY)
    assert [(new.draft_class, new.draft) for new in found.new] == [("DFlash2DraftModel", "a/draft")]
    assert found.new[0].facts["speculative_method"] == "dflash2"
    assert "DFlash2DraftModel: a/target with a/draft" in next(imported_lines(found))


def test_a_fact_that_the_table_states_otherwise_is_changed(table):
    found = import_vllm(table(SAME.replace("max_model_len=8192", "max_model_len=4096")), REGISTRY)
    assert [(c.key, c.field, c.ours, c.theirs) for c in found.changed] == [
        ("qwen3-coder-next-dflash", "max_model_len", 8192, 4096)
    ]
    assert not found.new + found.lost


def test_a_row_of_the_table_s_that_it_no_longer_has_is_lost(table):
    kept = SAME.replace("z-lab/Qwen3-4B-DFlash-b16", "z-lab/Qwen3-4B-DFlash-b32")
    found = import_vllm(table(kept), REGISTRY)
    assert found.lost == ("qwen3-4b-dflash-b16",)
    assert [new.draft for new in found.new] == ["z-lab/Qwen3-4B-DFlash-b32"]


def test_fields_that_a_row_lacks_and_values_that_are_no_literals_are_named(table):
    entry = """"Eagle3X": _HfExamplesInfo(
        "a/t", {"fp8": "a/u"}, speculative_model="a/d", enable_prefix_caching=False,
        revision=REVISION, transformers_version_reason={"vllm": "broken"}, **MORE),"""
    found = import_vllm(table(entry), REGISTRY).entries[0]
    assert dict(found.unknown) == {"extras": {"fp8": "a/u"}, "enable_prefix_caching": False}
    assert found.unreadable == ("**", "revision")
    assert found.facts["transformers_version_reason"] == "vllm: broken"
    assert found.facts["speculative_method"] == "eagle3"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "no table _SPECULATIVE_DECODING_EXAMPLE_MODELS"),
        ("x = (\n", r"line 1: is not Python: .\(. was never closed"),
        (
            "_SPECULATIVE_DECODING_EXAMPLE_MODELS = {'A': 3}\n",
            "line 1: A should be _HfExamplesInfo",
        ),
        ("_SPECULATIVE_DECODING_EXAMPLE_MODELS = {**A}\n", "line 1: .* class names as keys"),
        ("_SPECULATIVE_DECODING_EXAMPLE_MODELS: dict\n", "no table"),
        ("\0", "is not Python"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(text, said, tmp_path):
    path = tmp_path / "registry.py"
    path.write_text(text)
    with pytest.raises(SourceError, match=said) as caught:
        import_vllm(path, REGISTRY)
    assert "\n" not in str(caught.value)


def test_the_command_prints_lines_or_json(table, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["import", "vllm", str(table(SAME)), "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert [entry["line"] for entry in read["entries"]][:2] == [16, 18]
    assert read["new"] == read["changed"] == read["lost"] == []
    assert main(["import", "vllm", str(table(SAME))]) == 0
    assert "unknown  line" in capsys.readouterr().out
    assert main(["import", "vllm", "nowhere.py"]) == 2
    assert capsys.readouterr().err == "dflash-matrix: nowhere.py: No such file or directory\n"
