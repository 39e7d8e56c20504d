"""Each rule on a small engine that breaks it, and a healthy engine that breaks none."""

from __future__ import annotations

import pytest
from small_engine import Judge, only, rules

from matrix.faults import GIVES
from matrix.scan._output import RULES

LLAMA = "sglang/srt/models/llama.py"
VLLAMA = "vllm/model_executor/models/llama.py"
SHIFTED = "[val + 1 for val in layer_ids]"


def test_a_healthy_sglang_model_breaks_no_rule(judge: Judge) -> None:
    arch = only(judge("sglang"), "LlamaForCausalLM")
    assert arch.hook == {"dflash": "offered", "dspark": "missing", "eagle3": "missing"}
    assert (arch.body, arch.findings, arch.unknown) == ("LlamaModel", [], [])
    assert (arch.captures.before, arch.captures.after, arch.captures.final) == (True, False, True)
    assert arch.captures.enters is True


def test_a_healthy_vllm_model_breaks_no_rule_but_the_protocols_own(judge: Judge) -> None:
    arch = only(judge("vllm"), "LlamaForCausalLM")
    assert set(arch.hook.values()) == {"offered"}
    assert arch.inherited_from == "SupportsEagle3"
    assert rules(arch) == {"SRC-TAP-UNCHECKED"}
    assert "range, order, duplicates" in arch.findings[0].message
    assert (arch.captures.before, arch.captures.after, arch.captures.final) == (True, True, True)
    assert arch.unknown == []


def test_every_rule_of_the_fault_table_is_described_and_no_other() -> None:
    assert set(RULES) == {rule for rule in GIVES if rule.startswith("SRC-")}


def test_hook_missing(judge: Judge) -> None:
    hook = "def set_dflash_layers_to_capture"
    arch = only(judge("sglang", {LLAMA: (hook, "def something_else")}), "LlamaForCausalLM")
    (finding,) = arch.findings
    assert (finding.rule, finding.fault, finding.severity) == (
        "SRC-HOOK-MISSING",
        "hook-missing",
        "dies",
    )
    assert "LlamaModel captures" in finding.message
    assert finding.file == LLAMA
    assert finding.line == 19


def test_hook_missing_on_vllm_names_the_protocol(judge: Judge) -> None:
    arch = only(
        judge("vllm", {VLLAMA: ("nn.Module, SupportsEagle3", "nn.Module")}), "LlamaForCausalLM"
    )
    assert rules(arch) == {"SRC-HOOK-MISSING"}
    assert "SupportsEagle3" in arch.findings[0].fix
    assert set(arch.hook.values()) == {"missing"}


def test_a_tree_older_than_the_protocol_asks_for_the_method(judge: Judge) -> None:
    interfaces = "vllm/model_executor/models/interfaces.py"
    own = "(nn.Module):\n    def set_aux_hidden_state_layers(self, layers):\n        self.model._set_aux_hidden_state_layers(layers)\n"
    files = {
        interfaces: ("class SupportsEagle3(Protocol)", "class SupportsOther(Protocol)"),
        VLLAMA: ("(nn.Module, SupportsEagle3):\n", own),
    }
    assert set(only(judge("vllm", files), "LlamaForCausalLM").hook.values()) == {"offered"}


def test_hook_absent_when_no_body_captures_either(judge: Judge) -> None:
    files = {VLLAMA: "from torch import nn\nclass LlamaForCausalLM(nn.Module):\n    pass\n"}
    arch = only(judge("vllm", files), "LlamaForCausalLM")
    assert [(f.rule, f.severity) for f in arch.findings] == [("SRC-HOOK-ABSENT", "guard")]


def test_hook_not_delegated_when_the_body_has_no_such_method(judge: Judge) -> None:
    to_body = f"self.model.layers_to_capture = {SHIFTED}"
    call = f"self.model.set_dflash_layers_to_capture({SHIFTED})"
    arch = only(judge("sglang", {LLAMA: (to_body, call)}), "LlamaForCausalLM")
    assert [(f.rule, f.fault) for f in arch.findings] == [
        ("SRC-HOOK-MISSING", "hook-not-delegated")
    ]


def test_hook_not_delegated_when_the_vllm_body_lacks_the_mixin(judge: Judge) -> None:
    arch = only(
        judge("vllm", {VLLAMA: ("(nn.Module, EagleModelMixin)", "(nn.Module)")}), "LlamaForCausalLM"
    )
    assert ("SRC-HOOK-MISSING", "hook-not-delegated") in {(f.rule, f.fault) for f in arch.findings}


def test_hook_hollow_when_the_body_overrides_forward_without_capturing(judge: Judge) -> None:
    plain = """
class PlainModel(LlamaModel):
    def forward(self, hidden_states):
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        return hidden_states

class LlamaForCausalLM"""
    files = {VLLAMA: ("class LlamaForCausalLM", plain)}
    result = judge("vllm", files)
    assert rules(only(result, "LlamaForCausalLM")) == {"SRC-TAP-UNCHECKED"}

    import pathlib  # the same tree, now with the wrapper building the plain body

    text = pathlib.Path(result.source, VLLAMA).read_text()
    files = {VLLAMA: text.replace("self.model = LlamaModel", "self.model = PlainModel")}
    arch = only(judge("vllm", files), "LlamaForCausalLM")
    assert "SRC-HOOK-HOLLOW" in rules(arch)
    assert arch.body == "PlainModel"


def test_an_override_that_calls_super_still_captures(judge: Judge) -> None:
    outer = """
class OuterModel(LlamaModel):
    def forward(self, hidden_states):
        return super().forward(hidden_states)

class LlamaForCausalLM(nn.Module, SupportsEagle3):
    def __init__(self, config):
        self.model = OuterModel(config)
"""
    old = """class LlamaForCausalLM(nn.Module, SupportsEagle3):
    def __init__(self, config):
        self.model = LlamaModel(config)
"""
    assert "SRC-HOOK-HOLLOW" not in rules(
        only(judge("vllm", {VLLAMA: (old, outer)}), "LlamaForCausalLM")
    )


def test_hook_shadowed_and_the_shift_of_the_definition_that_wins(judge: Judge) -> None:
    again = """
    def set_dflash_layers_to_capture(self, layers):
        self.model.layers_to_capture = layers

EntryClass"""
    arch = only(judge("sglang", {LLAMA: ("\nEntryClass", again)}), "LlamaForCausalLM")
    assert {"SRC-HOOK-SHADOWED", "SRC-TAP-SHIFT"} <= rules(arch)
    shadowed = next(f for f in arch.findings if f.rule == "SRC-HOOK-SHADOWED")
    shift = next(f for f in arch.findings if f.rule == "SRC-TAP-SHIFT")
    assert shadowed.line == shift.line == 39
    assert "hides line 31" in shadowed.message


def test_an_equal_second_definition_hides_nothing(judge: Judge) -> None:
    one = "    def set_dflash_layers_to_capture(self, layer_ids):\n        self.model.layers_to_capture = [v + 1 for v in layer_ids]\n"
    arch = only(
        judge("sglang", {LLAMA: ("\nEntryClass", f"\n{one}\n{one}\nEntryClass")}),
        "LlamaForCausalLM",
    )
    shadowed = [f for f in arch.findings if f.rule == "SRC-HOOK-SHADOWED"]
    assert len(shadowed) == 1, "the first definition differs from the other two"
    same = {LLAMA: ("\nEntryClass", "\nEntryClass")}
    assert rules(only(judge("sglang", same), "LlamaForCausalLM")) == set()


@pytest.mark.parametrize(
    ("added", "fault"),
    [("list(layer_ids)", "tap-shift-1"), ("[v + 2 for v in layer_ids]", "tap-shift+1")],
)
def test_tap_shift_in_the_hook(judge: Judge, added: str, fault: str) -> None:
    arch = only(judge("sglang", {LLAMA: (SHIFTED, added)}), "LlamaForCausalLM")
    assert fault in {f.fault for f in arch.findings}


def test_no_shift_when_the_body_captures_after_the_layer(judge: Judge) -> None:
    old = """            if i in self.layers_to_capture:
                aux_hidden_states.append(hidden_states)
            hidden_states = self.layers[i](hidden_states)
"""
    new = """            hidden_states = self.layers[i](hidden_states)
            if i in self.layers_to_capture:
                aux_hidden_states.append(hidden_states)
"""
    result = judge("sglang", {LLAMA: (old, new)})
    shift = [f for f in only(result, "LlamaForCausalLM").findings if f.rule == "SRC-TAP-SHIFT"]
    assert [f.fault for f in shift] == ["tap-shift+1"], "the hook still adds one"
    import pathlib

    text = pathlib.Path(result.source, LLAMA).read_text()
    files = {LLAMA: text.replace(SHIFTED, "list(layer_ids)")}
    assert "SRC-TAP-SHIFT" not in rules(only(judge("sglang", files), "LlamaForCausalLM"))


def test_tap_shift_in_the_runner_is_found_and_placed_there(judge: Judge) -> None:
    runner = "vllm/v1/worker/gpu_model_runner.py"
    arch = only(judge("vllm", {runner: ("[i + 1 for i in", "[i for i in")}), "LlamaForCausalLM")
    (shift,) = [f for f in arch.findings if f.rule == "SRC-TAP-SHIFT"]
    assert (shift.fault, shift.file, shift.line) == ("tap-shift-1", runner, 5)


def test_a_shift_that_depends_on_the_draft_is_undecided_for_the_model_it_names(
    judge: Judge,
) -> None:
    runner = """
def map_ids(target, draft, layer_ids):
    target_layer_ids = layer_ids
    moved = target.model_type == "llama" and "Other" in draft.architectures
    return [i + 1 for i in target_layer_ids] if moved else target_layer_ids
"""
    path = "sglang/srt/model_executor/spec.py"
    arch = only(judge("sglang", {path: runner}), "LlamaForCausalLM")
    assert "SRC-TAP-SHIFT" not in rules(arch)
    assert arch.unknown == ["shift: what the runner adds depends on the draft or on the runner"]
    other = only(judge("sglang", {path: runner.replace('"llama"', '"muse"')}), "LlamaForCausalLM")
    assert other.unknown == []


def test_a_hook_whose_branches_add_different_amounts_is_undecided(judge: Judge) -> None:
    new = """layer_ids
        if self.flag:
            self.model.layers_to_capture = [val + 1 for val in layer_ids]"""
    arch = only(judge("sglang", {LLAMA: (SHIFTED, new)}), "LlamaForCausalLM")
    assert "SRC-TAP-SHIFT" not in rules(arch)
    assert any("differs between its branches" in reason for reason in arch.unknown)


def test_last_layer(judge: Judge) -> None:
    end = """        if self.end_layer in self.layers_to_capture:
            aux_hidden_states.append(hidden_states)
"""
    arch = only(judge("sglang", {LLAMA: (end, "")}), "LlamaForCausalLM")
    assert [(f.rule, f.fault, f.severity) for f in arch.findings] == [
        ("SRC-LAST-LAYER", "plane-missing", "dies")
    ]
    assert arch.captures.final is False


def test_last_layer_that_the_hook_refuses_is_no_finding(judge: Judge) -> None:
    end = """        if self.end_layer in self.layers_to_capture:
            aux_hidden_states.append(hidden_states)
"""
    check = "if list(layer_ids) != sorted(set(layer_ids)):"
    bound = "if list(layer_ids) != sorted(set(layer_ids)) or any(i >= depth - 1 or i < 0 for i in layer_ids):"
    stricter = bound.replace("any(i >= depth - 1 or i < 0 for", "not all(0 <= i < depth - 1 for")
    first = judge("sglang", {LLAMA: (end, "")})
    import pathlib

    text = pathlib.Path(first.source, LLAMA).read_text()
    assert "SRC-LAST-LAYER" in rules(only(first, "LlamaForCausalLM"))
    files = {LLAMA: text.replace(check, stricter)}
    assert rules(only(judge("sglang", files), "LlamaForCausalLM")) == set()


def test_tap_unchecked_counts_what_the_resolver_refuses(judge: Judge) -> None:
    check = """        if list(layer_ids) != sorted(set(layer_ids)):
            raise ValueError(f"unordered: {layer_ids}")
"""
    (finding,) = only(judge("sglang", {LLAMA: (check, "")}), "LlamaForCausalLM").findings
    assert (finding.rule, finding.severity) == ("SRC-TAP-UNCHECKED", "guard")
    assert "order, duplicates" in finding.message
    assert "range" not in finding.message


def test_none_unchecked(judge: Judge) -> None:
    check = "if layer_ids is None:"
    arch = only(judge("sglang", {LLAMA: (check, "if not self.ready:")}), "LlamaForCausalLM")
    assert rules(arch) == {"SRC-NONE-UNCHECKED"}


def test_pp_silent(judge: Judge) -> None:
    new = "        if not self.pp_group.is_last_rank:\n            return\n        if layer_ids is None:"
    arch = only(
        judge("sglang", {LLAMA: ("        if layer_ids is None:", new)}), "LlamaForCausalLM"
    )
    assert [(f.rule, f.line) for f in arch.findings] == [("SRC-PP-SILENT", 32)]


def test_a_refused_pipeline_is_not_silent(judge: Judge) -> None:
    new = "        if not self.pp_group.is_last_rank:\n            raise NotImplementedError\n        if layer_ids is None:"
    arch = only(
        judge("sglang", {LLAMA: ("        if layer_ids is None:", new)}), "LlamaForCausalLM"
    )
    assert rules(arch) == set()


def test_algo_gap(judge: Judge) -> None:
    hook = ("def set_dflash_layers_to_capture", "def set_eagle3_layers_to_capture")
    arch = only(judge("sglang", {LLAMA: hook}), "LlamaForCausalLM")
    assert [(f.rule, f.severity) for f in arch.findings] == [("SRC-ALGO-GAP", "guard")]
    assert arch.hook == {"dflash": "missing", "dspark": "missing", "eagle3": "offered"}


def test_unpack_when_lengths_differ(judge: Judge) -> None:
    old = "return hidden_states, aux_hidden_states\n"
    new = "return hidden_states, None, aux_hidden_states\n"
    arch = only(judge("sglang", {LLAMA: (old, new)}), "LlamaForCausalLM")
    assert [(f.rule, f.severity) for f in arch.findings] == [("SRC-UNPACK", "dies")]
    assert "takes 2 values apart" in arch.findings[0].message


def test_planes_that_nobody_takes_apart_are_undecided(judge: Judge) -> None:
    old = """        if self.capture_aux_hidden_states:
            hidden_states, aux_hidden_states = hidden_states
"""
    arch = only(judge("sglang", {LLAMA: (old, "")}), "LlamaForCausalLM")
    assert arch.findings == []
    assert arch.unknown == ["hand-over: what LlamaForCausalLM.forward does with the planes"]


def test_unpack_when_a_subclass_takes_the_planes_for_something_else(judge: Judge) -> None:
    other = """
class OtherModel(LlamaModel):
    def forward(self, hidden_states):
        model_output = super().forward(hidden_states)
        if isinstance(model_output, tuple):
            hidden_states, self.last = model_output
            return hidden_states
        return model_output

class LlamaForCausalLM(nn.Module):
    def __init__(self, config):
        self.model = OtherModel(config)
"""
    old = """class LlamaForCausalLM(nn.Module):
    def __init__(self, config):
        self.model = LlamaModel(config)
"""
    assert rules(only(judge("sglang", {LLAMA: (old, other)}), "LlamaForCausalLM")) == {"SRC-UNPACK"}


TWINS = {
    "vllm/model_executor/models/registry.py": (
        '("llama", "LlamaForCausalLM")',
        '("vllm.models.twin", "TwinForCausalLM")',
    ),
    "vllm/models/twin/__init__.py": """
from vllm.platforms import current_platform
if current_platform.is_rocm():
    from .amd import TwinForCausalLM
else:
    from .nvidia import TwinForCausalLM
""",
    "vllm/models/twin/nvidia.py": """
from vllm.model_executor.models.llama import LlamaForCausalLM
class TwinForCausalLM(LlamaForCausalLM): ...
""",
    "vllm/models/twin/amd.py": """
from torch import nn
class TwinModel(nn.Module):
    def forward(self, x): return x
class TwinForCausalLM(nn.Module):
    def __init__(self, config):
        self.model = TwinModel(config)
""",
}


def test_twin_gap(judge: Judge) -> None:
    arch = only(judge("vllm", TWINS), "LlamaForCausalLM")
    (gap,) = [f for f in arch.findings if f.rule == "SRC-TWIN-GAP"]
    assert (gap.fault, gap.severity, gap.file) == ("twin-gap", "dies", "vllm/models/twin/amd.py")
    assert "captures on cuda and not on rocm" in gap.message
    assert set(arch.hook.values()) == {"offered"}


def test_twins_that_agree_have_no_gap(judge: Judge) -> None:
    same = TWINS | {"vllm/models/twin/amd.py": TWINS["vllm/models/twin/nvidia.py"]}
    assert "SRC-TWIN-GAP" not in rules(only(judge("vllm", same), "LlamaForCausalLM"))


def test_drafts_are_listed_and_not_judged(judge: Judge) -> None:
    registry = "vllm/model_executor/models/registry.py"
    new = '_SPECULATIVE_DECODING_MODELS = {"DFlashDraftModel": ("draft", "Draft")}'
    files = {
        registry: ("_SPECULATIVE_DECODING_MODELS = {}", new),
        "vllm/model_executor/models/draft.py": "class Draft: ...\n",
    }
    arch = only(judge("vllm", files), "DFlashDraftModel")
    assert set(arch.hook.values()) == {"missing"}
    assert arch.findings == []
