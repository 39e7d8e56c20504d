"""SGLang's conventions: `EntryClass`, hooks found by `hasattr`, ids moved by the model's method."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from matrix.scan._engine import Registered, Way
from matrix.scan._resolve import Cls, Found, Owner, Tree, Untold
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

HOOKS: Final = {
    "dflash": "set_dflash_layers_to_capture",
    "dspark": "set_dspark_layers_to_capture",
    "eagle3": "set_eagle3_layers_to_capture",
}
"""Algorithm -> the method that the runner looks for."""

_MODELS: Final = "sglang/srt/models/"
_RESOLVER: Final = "sglang.srt.speculative.dflash_utils"
_PARSER: Final = "parse_dflash_draft_config"
_RUNNERS: Final = "sglang/srt/model_executor/"
_DRAFT: Final = re.compile(r"Eagle|EAGLE|MTP|NextN|Draft|DFlash|DSpark|Medusa|Assistant")


def packages() -> tuple[str, ...]:
    """The folders that hold models."""
    return (_MODELS,)


def runners(reader: Reader) -> set[str]:
    """The files that resolve layer ids."""
    own = {reader.source.module_file(_RESOLVER) or ""} - {""}
    return own | {
        file
        for file in reader.source.files
        if file.startswith(_RUNNERS) and b"target_layer_ids" in reader.data(file)
    }


def architectures(tree: Tree) -> list[Registered]:
    """Every class under `EntryClass` in the modules directly in the models package, as imported."""
    rows: dict[str, Registered] = {}
    for path in sorted(tree.reader.source.files):
        inside = path.removeprefix(_MODELS)
        if inside == path or "/" in inside or inside == "__init__.py":
            continue
        module = path.removesuffix(".py").replace("/", ".")
        for ref in tree.reader.facts(path).entries:
            for found in tree.resolve(module, ref):
                name = found.name if isinstance(found, Cls) else ref.name
                line = found.facts.line if isinstance(found, Cls) else 1
                where = tree.file(found) if isinstance(found, Cls) else path
                role = _role(tree, found, name)
                rows[name] = Registered(name, module, ref.name, where, line, role)
    return [rows[name] for name in sorted(rows)]


def _role(tree: Tree, found: Found, name: str) -> str:
    """Drafts go by their names; what computes no logits is no target either."""
    if _DRAFT.search(name):
        return "draft"
    if not isinstance(found, Cls):
        return "target"
    owner = tree.owner(found)
    inner = [f for child in ("language_model", "llm", "model") for f in owner.children(child)]
    owners = [owner, *(tree.owner(f) for f in inner if isinstance(f, Cls))]
    samples = any(one.children("logits_processor") for one in owners)
    unclear = any(isinstance(f, Untold) for f in inner)
    return "target" if samples or unclear else "other"


def hook(owner: Owner, algorithm: str) -> Hook:
    """`hasattr` of the hook on the class."""
    held = next(iter(owner.attrs(HOOKS[algorithm])), None)
    if held is not None and not held[1].guarded:
        return Hook("offered", held[0])
    if held is not None:
        return Hook("unknown", None, f"{held[0].name} defines it under a condition")
    for cls, _ in owner.attrs("__getattr__"):
        return Hook("unknown", None, f"{cls.name}.__getattr__ may hand it to another object")
    return Hook("unknown", None, owner.untold()[0]) if owner.untold() else Hook("missing")


def trace(owner: Owner, algorithm: str) -> Trace:
    """The way of the ids from the wrapper's hook."""
    return follow(owner, HOOKS[algorithm])


def ways(reader: Reader, tree: Tree) -> list[Way]:
    """What resolver and runner add to the ids of a DFlash config; empty when none reads them."""
    facts = tree.facts(_RESOLVER)
    path = reader.source.module_file(_RESOLVER) or ""
    read = [s for s in (facts.shifts if facts else ()) if s.function == _PARSER]
    if not read:
        return []
    checks = tuple(c for found in facts.refusals.values() for c in found) if facts else ()
    base = Way(sum(shift.offset for shift in read), path, read[0].line, (), checks)
    found = [base]
    for file in sorted(runners(reader) - {path}):
        for shift in reader.facts(file).shifts:
            if shift.key == "variable":
                moved = base.offset + shift.offset
                found.append(Way(moved, file, shift.line, shift.names, checks))
    return found


def missing_text(name: str) -> tuple[str, str]:
    """(what happens without the hook, what to write)."""
    return (
        f"a DFLASH start dies: Model {name} implements neither set_dspark_layers_to_capture "
        "nor set_dflash_layers_to_capture",
        f"def {HOOKS['dflash']}(self, layer_ids): hand [i + 1 for i in layer_ids] to the body",
    )
