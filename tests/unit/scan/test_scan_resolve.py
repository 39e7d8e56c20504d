"""Names across files: every way in which an engine comes by a class with a hook."""

from __future__ import annotations

import pytest
from small_engine import Judge, only

REGISTRY = "vllm/model_executor/models/registry.py"
OTHER = "vllm/model_executor/models/other.py"
ROW = '"LlamaForCausalLM": ("llama", "LlamaForCausalLM"),'


def answer(judge: Judge, source: str, files: dict[str, str] | None = None) -> tuple[str, list[str]]:
    """The hook answer for class `Other` of a module `other`, and what was undecided."""
    row = f'{ROW}\n    "Other": ("other", "Other"),'
    result = judge("vllm", {REGISTRY: (ROW, row), OTHER: source} | (files or {}))
    arch = only(result, "Other")
    assert len(set(arch.hook.values())) == 1
    return arch.hook["dflash"], arch.unknown


OFFERED = {
    "inherited from another file": """
from .llama import LlamaForCausalLM
class Other(LlamaForCausalLM): ...
""",
    "absolute import under an alias": """
import vllm.model_executor.models.llama as base
class Other(base.LlamaForCausalLM): ...
""",
    "an alias of a class": """
from .llama import LlamaForCausalLM as Base
Parent = Base
Other = Parent
""",
    "a star import": """
from .llama import *
class Other(LlamaForCausalLM): ...
""",
    "a class factory": """
from .llama import LlamaForCausalLM
def as_pooling(cls):
    class Pooling(cls): ...
    return Pooling
class Other(as_pooling(LlamaForCausalLM)): ...
""",
    "a factory of a factory": """
from .llama import LlamaForCausalLM
def inner(orig):
    class Made(orig): ...
    return Made
def outer(cls):
    if done(cls):
        return cls
    class Outer(inner(cls)): ...
    return Outer
Other = outer(LlamaForCausalLM)
""",
    "a decorator that makes a subclass": """
from .interfaces import SupportsEagle3
def with_hook(cls):
    class Hooked(cls, SupportsEagle3): ...
    return Hooked
@with_hook
class Other: ...
""",
    "a class made by type()": """
from .llama import LlamaForCausalLM
Other = type("Other", (LlamaForCausalLM,), {})
""",
    "a fallback import": """
try:
    from missing_package import LlamaForCausalLM
except ImportError:
    from .llama import LlamaForCausalLM
class Other(LlamaForCausalLM): ...
""",
    "the members of the protocol, without naming it": """
class Other:
    supports_eagle3 = True
    def set_aux_hidden_state_layers(self, layers): ...
    def get_eagle3_default_aux_hidden_state_layers(self): ...
""",
    "members attached after the class": """
from .interfaces import SupportsEagle3
class Other:
    supports_eagle3 = True
    def get_eagle3_default_aux_hidden_state_layers(self): ...
Other.set_aux_hidden_state_layers = SupportsEagle3.set_aux_hidden_state_layers
""",
    "a generic base": """
from typing import Generic, TypeVar
from .llama import LlamaForCausalLM
T = TypeVar("T")
class Base(LlamaForCausalLM, Generic[T]): ...
class Other(Base[int]): ...
""",
}

MISSING = {
    "an annotation is no value": """
class Other:
    supports_eagle3: bool
    def set_aux_hidden_state_layers(self, layers): ...
    def get_eagle3_default_aux_hidden_state_layers(self): ...
""",
    "a member that is set to None": """
from .llama import LlamaForCausalLM
class Other(LlamaForCausalLM):
    set_aux_hidden_state_layers = None
""",
    "one member short": """
class Other:
    supports_eagle3 = True
    def set_aux_hidden_state_layers(self, layers): ...
""",
    "only where types are checked": """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from .llama import LlamaForCausalLM as Base
else:
    class Base: ...
class Other(Base): ...
""",
    "a base from outside": """
from torch import nn
class Other(nn.Module): ...
""",
}

UNKNOWN = {
    "a base that is computed": """
REGISTRY = {"base": object}
class Other(REGISTRY["base"]): ...
""",
    "a base that a function finds": """
def find_base():
    return LOADED.pop()
class Other(find_base()): ...
""",
    "a base that nothing binds": """
class Other(Injected): ...
""",
    "a base that a foreign function makes of a class": """
from wrapping import wrap
from .llama import LlamaForCausalLM
class Other(wrap(LlamaForCausalLM)): ...
""",
    "a base that a condition chooses": """
from .llama import LlamaForCausalLM
if configured():
    Base = LlamaForCausalLM
else:
    class Base: ...
class Other(Base): ...
""",
    "a member under a condition": """
class Other:
    supports_eagle3 = True
    def get_eagle3_default_aux_hidden_state_layers(self): ...
    if configured():
        def set_aux_hidden_state_layers(self, layers): ...
""",
    "a class that isn't there": "",
}


@pytest.mark.parametrize("source", OFFERED.values(), ids=OFFERED)
def test_offered(judge: Judge, source: str) -> None:
    assert answer(judge, source)[0] == "offered"


@pytest.mark.parametrize("source", MISSING.values(), ids=MISSING)
def test_missing(judge: Judge, source: str) -> None:
    assert answer(judge, source)[0] == "missing"


@pytest.mark.parametrize("source", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_has_a_reason(judge: Judge, source: str) -> None:
    said, reasons = answer(judge, source)
    assert said == "unknown"
    assert reasons
    assert all(reasons)


def test_an_import_circle_ends(judge: Judge) -> None:
    files = {"vllm/model_executor/models/loop.py": "from .other import Other\n"}
    assert answer(judge, "from .loop import Other\n", files)[0] == "unknown"


def test_a_package_that_picks_its_module_in_getattr(judge: Judge) -> None:
    files = {
        "vllm/model_executor/models/picked/__init__.py": """
from vllm.platforms import current_platform
def __getattr__(name):
    if name in __all__:
        if current_platform.is_rocm():
            from . import plain
            return getattr(plain, name)
        from . import hooked
        return getattr(hooked, name)
    raise AttributeError(name)
""",
        "vllm/model_executor/models/picked/hooked.py": "from ..llama import LlamaForCausalLM as Base\n",
        "vllm/model_executor/models/picked/plain.py": "class Base: ...\n",
    }
    source = "from .picked import Base\nclass Other(Base): ...\n"
    assert answer(judge, source, files)[0] == "offered"


def test_a_body_that_a_subclass_passes_up(judge: Judge) -> None:
    files = {
        "sglang/srt/models/vl.py": """
from sglang.srt.models.llama import LlamaModel
class Plain: ...
class Base:
    def __init__(self, config, body_cls=Plain):
        self.model = body_cls(config)
        self.logits_processor = P(config)
    def set_dflash_layers_to_capture(self, layer_ids):
        self.model.layers_to_capture = [v + 1 for v in layer_ids]
class Keyword(Base):
    def __init__(self, config):
        super().__init__(config, body_cls=LlamaModel)
class Positional(Base):
    def __init__(self, config, body_cls=LlamaModel):
        super().__init__(config, body_cls)
EntryClass = [Base, Keyword, Positional]
"""
    }
    result = judge("sglang", files)
    bodies = {arch.arch: arch.body for arch in result.architectures}
    assert bodies["Keyword"] == bodies["Positional"] == "LlamaModel"
    assert bodies["Base"] == "Plain"


def test_a_body_under_a_class_attribute(judge: Judge) -> None:
    files = {
        "sglang/srt/models/text.py": """
from sglang.srt.models import llama
class Text:
    body_cls = None
    def __init__(self, config):
        self.model = self.body_cls(config)
        self.logits_processor = P(config)
class TextForCausalLM(Text):
    body_cls = llama.LlamaModel
EntryClass = TextForCausalLM
"""
    }
    arch = only(judge("sglang", files), "TextForCausalLM")
    assert arch.body == "LlamaModel"
    assert [f.rule for f in arch.findings] == ["SRC-HOOK-MISSING"]


def test_a_body_that_is_imported_where_it_is_built(judge: Judge) -> None:
    files = {
        "sglang/srt/models/late.py": """
class LateForCausalLM:
    def __init__(self, config):
        from .llama import LlamaModel as Body
        self.model = Body(config)
        self.logits_processor = P(config)
EntryClass = LateForCausalLM
"""
    }
    assert only(judge("sglang", files), "LateForCausalLM").body == "LlamaModel"


def test_a_class_that_forwards_attributes_is_undecided(judge: Judge) -> None:
    files = {
        "sglang/srt/models/front.py": """
class Front:
    def __getattr__(self, name):
        return getattr(self.inner, name)
EntryClass = Front
"""
    }
    arch = only(judge("sglang", files), "Front")
    assert set(arch.hook.values()) == {"unknown"}
    assert "__getattr__" in arch.unknown[0]


def test_entry_classes_in_every_form(judge: Judge) -> None:
    files = {
        "sglang/srt/models/many.py": """
class A: ...
class B: ...
class C: ...
class D: ...
EntryClass = [A]
EntryClass += [B]
EntryClass.append(C)
EntryClass = EntryClass + [D]
""",
        "sglang/srt/models/deeper/inner.py": "class Hidden: ...\nEntryClass = Hidden\n",
    }
    names = {arch.arch for arch in judge("sglang", files).architectures}
    assert names == {"A", "B", "C", "D", "LlamaForCausalLM"}
