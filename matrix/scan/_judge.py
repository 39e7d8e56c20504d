"""The verdict on one architecture, on its build's platform and, where files split, on others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matrix.faults import Fault, severity_of
from matrix.scan._facts import Ref
from matrix.scan._names import PLATFORMS
from matrix.scan._resolve import Cls, Found, Owner, Tree, Untold
from matrix.scan._result import Architecture, Captures, Finding
from matrix.scan._rules import Case, captures_of, findings
from matrix.scan._trace import Trace, body_of

if TYPE_CHECKING:
    from matrix.scan._engine import Engine, Registered
    from matrix.scan._read import Reader

__all__ = ["Judge"]

_PP_CHECK: Final = "verify_supports_aux_hidden_states_over_pp"


class Judge:
    """Judges architectures of one engine, on its own platform and, where files split, on others."""

    def __init__(self, engine: Engine, reader: Reader, tree: Tree) -> None:
        self.engine, self.reader, self.tree = engine, reader, tree
        self.ways = engine.ways(reader, tree)
        self.pp_checked = any(
            _PP_CHECK in reader.facts(path).words
            for path in reader.source.files
            if path.startswith("vllm/v1/worker/gpu/") and _PP_CHECK.encode() in reader.data(path)
        )
        self.others = [
            Tree(reader, platform, tree.registered)
            for platform in PLATFORMS
            if platform != tree.platform
        ]

    def architecture(self, row: Registered) -> Architecture:
        """The verdict on one architecture."""
        self.tree.split = False
        cases = self.cases(self.tree, row)
        if not cases:
            return self.untold(row)
        case = cases[0]
        result = self.verdict(row, case)
        for other in cases[1:]:
            self.merge(result, self.verdict(row, other))
        if self.split(row):
            result.findings += self.twins(row, case)
        return result

    def split(self, row: Registered) -> bool:
        """Whether the class behind an architecture depends on the platform."""
        self.tree._names = {k: v for k, v in self.tree._names.items() if k[0] != row.module}
        self.tree.split = False
        self.tree.find(row.module, row.name)
        return self.tree.split

    def cases(self, tree: Tree, row: Registered) -> list[Case]:
        """One case for each class and each order of lookup that the source leaves open."""
        found = [f for f in self.classes(tree, row) if isinstance(f, Cls)]
        return [self.case(row, Owner(tree, cls, mro)) for cls in found for mro in tree.mros(cls)]

    def classes(self, tree: Tree, row: Registered) -> tuple[Found, ...]:
        """What the registered name can be."""
        return tree.resolve(row.module, Ref("name", row.name))

    def case(self, row: Registered, wrapper: Owner) -> Case:
        """Everything the rules ask about one class."""
        hooks = {name: self.engine.hook(wrapper, name) for name in self.engine.HOOKS}
        trace: Trace | None = None
        body, untold = body_of(wrapper)
        if hooks["dflash"].answer == "offered":
            trace = self.engine.trace(wrapper, "dflash")
            body = trace.stored[0].body if trace.stored else None
            untold = trace.untold
        return Case(
            self.engine,
            row,
            wrapper,
            hooks,
            trace,
            body,
            untold,
            self.ways,
            self.pp_checked,
            [f"body: {reason}" for reason in dict.fromkeys(untold)] if trace else [],
        )

    def verdict(self, row: Registered, case: Case) -> Architecture:
        """A case as a result."""
        wrapper = case.wrapper.cls
        found = findings(case)
        owners = [hook.owner for hook in case.hooks.values() if hook.owner is not None]
        inherited = next((o.name for o in owners if o != wrapper), None)
        reasons = [f"hook: {h.reason}" for h in case.hooks.values() if h.answer == "unknown"]
        return Architecture(
            row.arch,
            row.module,
            wrapper.name,
            case.body.cls.name if case.body else None,
            {name: hook.answer for name, hook in case.hooks.items()},
            inherited,
            captures_of(case),
            found,
            list(dict.fromkeys([*reasons, *case.unknown])),
        )

    def untold(self, row: Registered) -> Architecture:
        """An architecture whose class can't be found."""
        found = self.classes(self.tree, row)
        reason = next((f.reason for f in found if isinstance(f, Untold)), "not in this tree")
        hooks = dict.fromkeys(self.engine.HOOKS, "unknown")
        none = Captures(None, None, None)
        unknown = [f"class: {row.name} in {row.module}: {reason}"]
        return Architecture(row.arch, row.module, row.name, None, hooks, None, none, [], unknown)

    @staticmethod
    def merge(result: Architecture, other: Architecture) -> None:
        """Keeps of two possible verdicts what they agree on."""
        for name, answer in other.hook.items():
            if result.hook[name] != answer:
                result.hook[name] = "unknown"
                result.unknown.append(f"hook: {result.cls} has bases that depend on a condition")
        result.findings = [f for f in result.findings if f in other.findings]
        result.unknown = list(dict.fromkeys([*result.unknown, *other.unknown]))

    def twins(self, row: Registered, case: Case) -> list[Finding]:
        """SRC-TWIN-GAP: the same architecture keeps the contract on one platform only."""
        here = _stands(case)
        for tree in self.others:
            for twin in self.cases(tree, row)[:1]:
                there = _stands(twin)
                if twin.wrapper.cls == case.wrapper.cls or None in (here, there) or here == there:
                    continue
                good, bad = (case, twin) if here else (twin, case)
                sides = good.wrapper.tree.platform, bad.wrapper.tree.platform
                cls = bad.wrapper.cls
                text = (
                    f"{cls.name} captures on {sides[0]} and not on {sides[1]}: a start dies there"
                )
                return [
                    Finding(
                        "SRC-TWIN-GAP",
                        Fault.TWIN_GAP.value,
                        severity_of("SRC-TWIN-GAP", Fault.TWIN_GAP).value,
                        bad.wrapper.tree.file(cls),
                        cls.facts.line,
                        text,
                        f"give {cls.module} the hook and the capture of {good.wrapper.cls.module}",
                    )
                ]
        return []


def _stands(case: Case) -> bool | None:
    """Whether hook and body are both there; `None` for a stub that builds nothing, or untold."""
    wrapper = case.wrapper
    builds = any(cls.facts.children for cls in wrapper.classes())
    answer = case.hooks["dflash"].answer
    if not builds or answer == "unknown":
        return None
    if answer == "missing":
        return False
    captures = captures_of(case)
    return None if captures.before is None else bool(captures.before or captures.after)
