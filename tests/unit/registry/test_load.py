from __future__ import annotations

import subprocess
import sys

import pytest

from matrix.errors import RegistryError
from matrix.faults import Fault
from matrix.registry import Baseline, Gate, Variant, load

ROW = """\
[[pair]]
key = "mine"
target = "me/target"
speculative_model = "me/draft"
arch = "Qwen3ForCausalLM"
num_target_layers = 12
target_layer_ids = [1, 5, 9]
"""
EXPECTATION = """\
[[expectation]]
engine = "vllm"
version = ">=0.18.1,<0.24"
arch = "Qwen3Next*"
clause = "HOOK-*"
fault = "hook-missing"
reason = "the wrapper lacks the protocol"
link = "https://github.com/vllm-project/vllm/pull/45319"
"""


@pytest.fixture
def read(tmp_path):
    def read(text, name="mine.toml", **options):
        path = tmp_path / name
        path.write_text(text)
        return load([path], **options)

    return read


def refused(read, text):
    with pytest.raises(RegistryError) as caught:
        read(text)
    assert "\n" not in str(caught.value)
    assert caught.value.file.endswith("mine.toml")
    return caught.value


def test_a_row_of_the_users_is_added_after_the_built_in_ones(read):
    registry = read(
        ROW
        + """
hidden_size = 64
vocab_size = 512
block_size = 8
mask_token_id = 511
draft_layer_types = ["sliding_attention", "full_attention"]
draft_num_hidden_layers = 2
min_transformers_version = "4.56.3"
transformers_version_reason = "first to know it"
engine_args = { vllm = { kv_cache_dtype = "fp8" } }

[[pair.gates]]
engine = "vllm"
version = ">=0.21.0"
reason = "no class before"

[[pair.baselines]]
dataset = "gsm8k"
sampling = "greedy"
acceptance_length = 3
source = "us"

[[pair.variants]]
engine = "sglang"
axis = "page-size"
value = "64"
source = "us"
"""
    )
    assert list(registry.pairs) == [*load().pairs, "mine"]
    row = registry.pairs["mine"]
    assert row.target_layer_ids == (1, 5, 9)
    assert row.draft_layer_types == ("sliding_attention", "full_attention")
    assert row.gates == (Gate("vllm", ">=0.21.0", "no class before"),)
    assert row.baselines == (Baseline(3.0, "us", dataset="gsm8k", sampling="greedy"),)
    assert row.engine_args["vllm"]["kv_cache_dtype"] == "fp8"
    assert row.variants == (Variant("sglang", "page-size", "64", "us"),)
    assert row.drafts == 7
    assert [path.name for path in registry.files] == ["mine.toml"]


@pytest.mark.parametrize(
    ("old", "new", "field", "problem"),
    [
        ("num_target_layers", "num_layers", "num_layers", "did you mean 'num_target_layers'?"),
        ("arch =", "zzz =", "zzz", "unknown field; known are key, target,"),
        ('target = "me/target"\n', "", "target", "is missing"),
        ("= 12", '= "12"', "num_target_layers", "should be a whole number, not a string"),
        ("= 12", "= 12.0", "num_target_layers", "should be a whole number, not a number"),
        ("= 12", "= true", "num_target_layers", "should be a whole number, not true or false"),
        ("= 12", "= 0", "num_target_layers", "0 is below 1"),
        ("[1, 5, 9]", "5", "target_layer_ids", "should be an array, not a whole number"),
        ("[1, 5, 9]", '[1, "5"]', "target_layer_ids[1]", "a whole number, not a string"),
        ("[1, 5, 9]", "[]", "target_layer_ids", "is empty"),
        ("[1, 5, 9]", "[1, 12]", "target_layer_ids", "[12] are not in 0..11"),
        ("[1, 5, 9]", "[-1, 5]", "target_layer_ids", "[-1] are not in 0..11"),
        ("[1, 5, 9]", "[5, 1, 5]", "target_layer_ids", "[5] stand there more than once"),
        ('"mine"', '"Mine"', "key", "'Mine' should match [a-z0-9][a-z0-9._-]*"),
        ('"me/target"', '" "', "target", "is blank"),
    ],
)
def test_a_wrong_field_type_or_value_is_refused_with_its_place(read, old, new, field, problem):
    assert old in ROW
    error = refused(read, ROW.replace(old, new))
    assert error.field == field
    assert problem in error.problem


@pytest.mark.parametrize(
    ("line", "field", "problem"),
    [
        ('kind = "fake"', "kind", "'fake' is none of real, synthetic, canary"),
        ('layout = "nestd"', "layout", "'nestd' is none of flat, nested, nested+rope"),
        ("hidden_size = 0", "hidden_size", "0 is below 1"),
        ("vocab_size = 8\nmask_token_id = 8", "mask_token_id", "8 is outside the vocabulary 0..7"),
        ("mask_token_id = -1", "mask_token_id", "-1"),
        ("block_size = 1", "block_size", "1 leaves no drafts for dflash"),
        ("vocab_size = 8\ndraft_vocab_size = 9", "draft_vocab_size", "9 is above vocab_size 8"),
        (
            'draft_layer_types = ["a"]\ndraft_num_hidden_layers = 2',
            "draft_layer_types",
            "has 1 entries for 2 draft layers",
        ),
        ('final_tap = "raw"', "final_tap_source", "say where final_tap 'raw' is known from"),
        ('revision = "0ac7575"', "revision", "a part goes to revision_prefix"),
        ('min_transformers_version = "4.x"', "min_transformers_version", "not a version"),
        ('max_transformers_version = "4"', "transformers_version_reason", "is blank"),
        (
            'min_transformers_version = "5"\nmax_transformers_version = "4"\n'
            'transformers_version_reason = "x"',
            "max_transformers_version",
            "4 is below the minimum 5",
        ),
        (
            'variants = [{engine="vllm", axis="page", value="64", source="us"}]',
            "variants[0].axis",
            "'page' is not known; the nearest are page-size",
        ),
        (
            'variants = [{engine="vllm", axis="graph", value=" ", source="us"}]',
            "variants[0].value",
            "is blank",
        ),
        ("width_factor = 4", "width_factor", "4 is neither 1 nor the number of streams, 1"),
        (
            "hidden_size = 64\nfc_in = 128",
            "fc_in",
            "128 is not 192: 3 ids x hidden_size 64 x width_factor 1",
        ),
        ('target_revision = "abc"', "target_revision", "'abc' is not a full hash"),
        ("num_speculative_tokens = 0", "num_speculative_tokens", "0 is below 1"),
        ("gates = 3", "gates", "should be an array, not a whole number"),
        ('gates = [{ engine = "vllm", version = ">=1" }]', "gates[0].reason", "is missing"),
        (
            'gates = [{ engine = "vllm", version = ">=1", reason = " " }]',
            "gates[0].reason",
            "is blank",
        ),
        (
            'gates = [{ engine = "vllm", version = "1.x", reason = "r" }]',
            "gates[0].version",
            "'1.x' is not a version specifier",
        ),
        (
            'gates = [{ engin = "vllm", version = ">=1", reason = "r" }]',
            "gates[0].engin",
            "did you mean 'engine'?",
        ),
        (
            'baselines = [{dataset="a", sampling="b", acceptance_length=0.5, source="c"}]',
            "baselines[0].acceptance_length",
            "is below 1",
        ),
        ("hf_overrides = { since = 2026-01-01 }", "hf_overrides", "holds a date"),
        ("engine_args = { vllm = 3 }", "engine_args[...]", "should be a table"),
    ],
)
def test_an_impossible_value_is_refused_with_its_field(read, line, field, problem):
    error = refused(read, ROW + line)
    assert (error.row, error.field) == ("mine", field)
    assert problem in error.problem


def test_a_row_without_a_key_is_named_after_its_draft(read):
    text = ROW.replace('key = "mine"\n', "").replace("me/draft", "Me/My-Draft.v1")
    assert "my-draft.v1" in read(text).pairs
    assert refused(read, text.replace("= 12", '= "12"')).row == "pair #1"


def test_the_owner_stands_in_front_where_another_draft_has_the_default_key(read):
    text = ROW.replace('key = "mine"\n', "").replace("me/draft", "Me/Qwen3-4B-DFlash-b16")
    assert read(text).pairs["me-qwen3-4b-dflash-b16"].speculative_model == "Me/Qwen3-4B-DFlash-b16"


def test_a_duplicate_key_names_both_files(read, tmp_path):
    error = refused(read, ROW.replace('"mine"', '"qwen3-4b-dflash-b16"'))
    assert error.field == "key"
    assert error.problem == "duplicate key; matrix/registry/rows has it too"
    both = [tmp_path / "first.toml", tmp_path / "second.toml"]
    for path in both:
        path.write_text(ROW)
    with pytest.raises(RegistryError, match=r"second\.toml: mine: key: .*first\.toml has it too"):
        load(both)


def test_remote_code_counts_only_when_it_is_allowed(read):
    text = ROW + "trust_remote_code = true"
    kept = read(text)
    assert kept.pairs["mine"].trust_remote_code is False
    assert kept.remote_code_refused == ("mine",)
    allowed = read(text, allow_remote_code=True)
    assert allowed.pairs["mine"].trust_remote_code is True
    assert allowed.remote_code_refused == ()


def test_an_expectation_knows_where_it_stands(read):
    registry = read(EXPECTATION + 'examples = [{ ids = [1, 1] }, "null", "[null, 3]"]')
    row = registry.expectations[-1]
    assert row.fault is Fault.HOOK_MISSING
    assert row.outcome == "fail"
    assert row.examples == ({"ids": [1, 1]}, None, [None, 3])
    assert row.name.endswith("mine.toml#1")


def test_a_lost_workers_expectation_needs_no_fault(read):
    text = EXPECTATION.replace('fault = "hook-missing"', 'outcome = "crash"')
    assert read(text).expectations[-1].fault is Fault.UNKNOWN
    error = refused(read, text.replace("crash", "fail"))
    assert (error.field, error.problem) == ("fault", "is missing")


@pytest.mark.parametrize(
    ("old", "new", "field", "problem"),
    [
        ("arch =", "architecture =", "architecture", "did you mean 'arch'?"),
        ("engine =", "file =", "file", "unknown field"),
        ("arch =", 'pair = "a"\narch =', "pair", "exactly one of pair and arch"),
        ('arch = "Qwen3Next*"\n', "", "pair", "exactly one of pair and arch"),
        ('"hook-missing"', '"hook-mising"', "fault", "the nearest are hook-missing"),
        ('"hook-missing"', '"tap-leak"', "fault", "HOOK-* can't give 'tap-leak'"),
        ('"HOOK-*"', '"HOK-PRESENT"', "clause", "the nearest is HOOK-PRESENT"),
        ('"HOOK-*"', '"SRC-HOOK-MISSING"', "clause", "names no clause"),
        ('">=0.18.1,<0.24"', '"0.18"', "version", "is not a version specifier"),
        ('">=0.18.1,<0.24"', '""', "version", "'>=0' means every version"),
        ('"https://', '"ftp://', "link", "is no http or https address"),
        ('"https://github.com/', '"https:///', "link", "is no http or https address"),
        ('"the wrapper lacks the protocol"', '""', "reason", "is blank"),
        ("reason =", 'outcome = "skip"\nreason =', "outcome", "'skip' is none of fail, warn,"),
        ("reason =", "examples = [1979-05-27]\nreason =", "examples", "holds a date"),
        ("reason =", 'examples = ["ids"]\nreason =', "examples", "'ids' is not JSON text"),
    ],
)
def test_a_wrong_expectation_is_refused_with_its_place(read, old, new, field, problem):
    assert old in EXPECTATION
    error = refused(read, EXPECTATION.replace(old, new))
    assert (error.row, error.field) == ("expectation #1", field)
    assert problem in error.problem


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[pair]]\nkey = \n", "mine.toml: line 2: is not TOML: Invalid value"),
        ('[[pair]]\nkey = "x', "mine.toml: line 2: is not TOML: Unterminated string"),
        ("[[pairs]]\n", "mine.toml: top level: pairs: unknown field; did you mean 'pair'?"),
        ("[pair]\n", "mine.toml: top level: pair: should be written as [[pair]] tables"),
        ("pair = [1]\n", "mine.toml: top level: pair: should be written as [[pair]] tables"),
    ],
)
def test_a_malformed_file_is_refused_in_one_line(read, text, message):
    assert message in str(refused(read, text))


def test_a_file_that_is_missing_or_binary_is_refused_in_one_line(tmp_path):
    path = tmp_path / "mine.toml"
    with pytest.raises(RegistryError, match=r"mine\.toml: whole file: No such file or directory$"):
        load([path])
    path.write_bytes(b"[[pair]]\nkey = '\xff'\n")
    with pytest.raises(RegistryError, match=r"mine\.toml: line 2: is not UTF-8 text$"):
        load([path])


def test_the_registry_loads_without_torch_or_hypothesis():
    code = "import sys, matrix.registry as r; r.load(); print({'torch', 'hypothesis'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
