"""vLLM's conventions: registry tables, a runtime-checkable protocol, ids moved by the runner.

`supports_eagle3(model)` is an `isinstance` against a Protocol, so a class offers the hook when it
has every *member* of the protocol, whether or not it names it as a base. The protocol is read from
the tree, since its members change between releases. One protocol serves all algorithms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matrix.scan._engine import Registered, Way
from matrix.scan._resolve import Cls, External, Found, Owner, Tree, Untold
from matrix.scan._trace import Hook, Trace, follow

if TYPE_CHECKING:
    from matrix.scan._read import Reader

__all__ = [
    "HOOKS",
    "architectures",
    "hook",
    "missing_text",
    "packages",
    "runners",
    "trace",
    "ways",
]

HOOKS: Final = dict.fromkeys(("dflash", "dspark", "eagle3"), "set_aux_hidden_state_layers")
"""Algorithm -> the method that the runner calls."""

_MODELS: Final = "vllm.model_executor.models"
_REGISTRY: Final = f"{_MODELS}.registry"
_INTERFACES: Final = f"{_MODELS}.interfaces"
_PROTOCOL: Final = "SupportsEagle3"
_RUNNERS: Final = (
    "vllm.v1.worker.gpu_model_runner",
    "vllm.v1.worker.gpu.spec_decode.eagle.eagle3_utils",
)
_RESOLVERS: Final = ("_get_eagle3_aux_layers_from_config", "get_eagle3_aux_layers_from_config")

_ROLES: Final = {
    "_TEXT_GENERATION_MODELS": "target",
    "_MULTIMODAL_MODELS": "target",
    "_TRANSFORMERS_SUPPORTED_MODELS": "target",
    "_TRANSFORMERS_BACKEND_MODELS": "target",
    "_SPECULATIVE_DECODING_MODELS": "draft",
}


def packages() -> tuple[str, ...]:
    """The folders that hold models."""
    return ("vllm/model_executor/models/", "vllm/models/")


def runners(reader: Reader) -> set[str]:
    """The files that resolve layer ids."""
    return {reader.source.module_file(module) or "" for module in _RUNNERS} - {""}


def architectures(tree: Tree) -> list[Registered]:
    """What the registry's tables name, in their order; the last table wins, as in Python."""
    facts = tree.facts(_REGISTRY)
    path = tree.reader.source.module_file(_REGISTRY) or ""
    if facts is None:
        return []
    rows: dict[str, Registered] = {}
    for table in facts.tables_of.get("_VLLM_MODELS", list(facts.tables)):
        for arch, (module, name, line) in facts.tables.get(table, {}).items():
            full = module if module.startswith("vllm.") else f"{_MODELS}.{module}"
            role = _ROLES.get(table, "other")
            rows[arch] = Registered(arch, full, name, path, line, role)
    return list(rows.values())


def members(tree: Tree) -> dict[str, str]:
    """Member of the protocol -> how it is declared (`def`, `value`, `declared`)."""
    found: dict[str, str] = {}
    for cls in tree.find(_INTERFACES, _PROTOCOL):
        if isinstance(cls, Cls):
            for base in tree.owner(cls).classes():
                for name, attrs in base.facts.attrs.items():
                    if not name.startswith("_"):
                        found.setdefault(name, attrs[-1].kind)
    return found


def hook(owner: Owner, algorithm: str) -> Hook:
    """`supports_eagle3` of a class; the algorithm makes no difference."""
    # Releases older than the protocol call the method without asking.
    needed = members(owner.tree) or {HOOKS[algorithm]: "def"}
    holders: dict[str, Cls] = {}
    doubtful: list[str] = []
    lacking: list[str] = []
    for name, kind in needed.items():
        held = next(iter(owner.attrs(name)), None)
        if held is None or (held[1].kind == "none" and kind == "def"):
            lacking.append(name)
        elif held[1].guarded:
            doubtful.append(f"{held[0].name}.{name} is defined under a condition")
        else:
            holders[name] = held[0]
    if not lacking and not doubtful:
        return Hook("offered", holders[HOOKS[algorithm]])
    reasons = [*doubtful, *owner.untold()]
    if lacking and not owner.untold():
        return Hook("missing", None, ", ".join(lacking))
    return Hook("unknown", None, reasons[0])


def trace(owner: Owner, algorithm: str) -> Trace:
    """The way of the ids from the wrapper's hook."""
    return follow(owner, HOOKS[algorithm], _route)


def _route(owner: Owner, cls: Cls) -> tuple[Owner | Untold | External, ...]:
    """The protocol's own search: `get_language_model()`, else `language_model`, then `.model`."""
    if cls.module != _INTERFACES:
        return (Untold(f"{cls.name}.{HOOKS['dflash']} chooses the body as it runs"),)
    tree = owner.tree
    outer: tuple[Found, ...] = (owner.cls,)
    if any(True for _ in owner.attrs("get_language_model")):
        outer = owner.at("get_language_model()")
        if not any(isinstance(found, Cls) for found in outer):
            outer = owner.at("language_model") or owner.at("llm") or owner.at("model") or outer
    elif owner.at("language_model"):
        outer = owner.at("language_model")
    found: list[Owner | Untold | External] = []
    for entry in outer or (Untold(f"what {owner.cls.name} gives as its language model"),):
        if not isinstance(entry, Cls):
            found.append(entry)
            continue
        holder = owner if entry == owner.cls else tree.owner(entry)
        inner = holder.at("model")
        found += [tree.owner(f) if isinstance(f, Cls) else f for f in inner] or [holder]
    return tuple(found)


def ways(reader: Reader, tree: Tree) -> list[Way]:
    """What each runner adds to the ids of a DFlash config; empty when none reads them."""
    found = []
    for module in _RUNNERS:
        facts = tree.facts(module)
        read = [s for s in (facts.shifts if facts else ()) if s.function in _RESOLVERS]
        read = [shift for shift in read if shift.key == "config"]
        if read:
            path = reader.source.module_file(module) or ""
            found.append(Way(sum(shift.offset for shift in read), path, read[0].line))
    return found


def missing_text(name: str) -> tuple[str, str]:
    """(what happens without the hook, what to write)."""
    return (
        "a DFlash start dies: Model does not support EAGLE3 interface",
        f"class {name}(..., {_PROTOCOL})",
    )
