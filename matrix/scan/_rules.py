"""The rules: what of the capture contract one architecture can't keep, as its source stands.

Every rule needs proof. Where a rule's question can't be decided, the reason goes to `unknown`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matrix.faults import Fault, severity_of
from matrix.scan._result import Captures, Finding
from matrix.scan._trace import Hook, Stored, Trace, drops_of, returns_of, sites, unpacks_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matrix.scan._engine import Engine, Registered, Way
    from matrix.scan._facts import Site
    from matrix.scan._resolve import Cls, Owner

__all__ = ["Case", "captures_of", "findings", "shifts"]


@dataclass
class Case:
    """One architecture on one platform, with everything the rules ask about."""

    engine: Engine
    row: Registered
    wrapper: Owner
    hooks: dict[str, Hook]
    trace: Trace | None
    """The way of the DFlash hook, `None` when it isn't offered."""
    body: Owner | None
    untold_body: list[str]
    ways: list[Way]
    pp_checked: bool
    """Whether the engine refuses pipeline ranks that would drop planes."""
    unknown: list[str]

    @property
    def offered(self) -> bool:
        """Whether any algorithm's hook is offered."""
        return any(hook.answer == "offered" for hook in self.hooks.values())


def captures_of(case: Case) -> Captures:
    """Where the body captures, over all its sites."""
    if case.body is None:
        return Captures(None, None, None)
    found = _sites(case)
    after = [site for _, site in found if site.where == "after"]
    final = bool(after) or any(site.where == "end" for _, site in found)
    before = any(site.where in ("before", "entry") for _, site in found)
    moves = _moves([site for _, site in found])
    enters = moves == {-1} if moves in ({-1}, {0}) else None
    return Captures(before, bool(after), final, enters)


def _moves(found: list[Site]) -> set[int | None]:
    """The layers whose outputs sites deliver, less the values compared with.

    Those in the loop over the layers are believed first: one in front of it or behind it stands for
    a single layer.
    """
    loops = {_site_move(site) for site in found if site.where in ("before", "after")}
    return loops or {_site_move(site) for site in found}


def _sites(case: Case) -> list[tuple[Cls, Site]]:
    stored = case.trace.stored if case.trace else []
    if not stored:
        return sites(case.body) if case.body else []
    found = [pair for held in stored for pair in sites(held.body, held.container)]
    return list(dict.fromkeys(found))


def _finding(
    owner: Owner, rule: str, fault: Fault, at: tuple[Cls, int], message: str, fix: str
) -> Finding:
    cls, line = at
    return _placed((owner.tree.file(cls), line), rule, fault, message, fix)


def _placed(at: tuple[str, int], rule: str, fault: Fault, message: str, fix: str) -> Finding:
    return Finding(rule, fault.value, severity_of(rule, fault).value, *at, message, fix)


def _one_hook(case: Case) -> bool:
    """Whether one protocol serves all algorithms, so that the runner has the last word on ids."""
    return len(set(case.engine.HOOKS.values())) == 1


def findings(case: Case) -> list[Finding]:
    """Everything the rules find, in the order of the rules; only targets have a contract to keep."""
    found: list[Finding] = []
    if case.row.role != "target":
        return found
    for rule in (
        _hook,
        _hollow,
        _shadowed,
        _shift,
        _unchecked,
        _last_layer,
        _none_unchecked,
        _pp_silent,
        _unpack,
    ):
        found += rule(case)
    return list(dict.fromkeys(found))


def _hook(case: Case) -> Iterator[Finding]:
    """SRC-HOOK-MISSING, SRC-ALGO-GAP, SRC-HOOK-ABSENT: the hook isn't there."""
    if case.hooks["dflash"].answer != "missing":
        return
    cls = case.wrapper.cls
    at = (cls, cls.facts.line)
    dies, fix = case.engine.missing_text(cls.name)
    if not case.ways:
        dies = "and nothing in this tree reads the layer ids of a DFlash config yet"
    body = case.body.cls.name if case.body and _sites(case) else ""
    if body and case.offered:
        has = ", ".join(a for a, hook in case.hooks.items() if hook.answer == "offered")
        text = f"{cls.name} offers {has} but not dflash, and {body} captures; {dies}"
        yield _finding(case.wrapper, "SRC-ALGO-GAP", Fault.HOOK_MISSING, at, text, fix)
    elif body:
        text = f"{cls.name} offers no hook although {body} captures; {dies}"
        yield _finding(case.wrapper, "SRC-HOOK-MISSING", Fault.HOOK_MISSING, at, text, fix)
    elif case.untold_body:
        case.unknown.append(f"body: {case.untold_body[0]}")
    elif not case.offered:
        text = f"{cls.name} offers no hook, and no body of it captures; {dies}"
        repair = f"capture in the body's loop over its layers, then {fix}"
        yield _finding(case.wrapper, "SRC-HOOK-ABSENT", Fault.HOOK_ABSENT, at, text, repair)


def _hollow(case: Case) -> Iterator[Finding]:
    """SRC-HOOK-HOLLOW, and a hook that doesn't reach a body."""
    if case.trace is None:
        return
    for stop in case.trace.stops:
        at = (case.wrapper.cls, case.wrapper.cls.facts.line)
        text = f"{stop.step.cls.name}.{stop.step.name} hands the ids on, but {stop.reason}"
        fix = "delegate to the object whose layers capture"
        rule = "SRC-HOOK-MISSING"
        yield _finding(case.wrapper, rule, Fault.HOOK_NOT_DELEGATED, at, text, fix)
    bodies = {held.body.cls.name for held in case.trace.stored}
    read = [held for held in case.trace.stored if sites(held.body, held.container)]
    if not bodies or read or case.trace.untold:
        return
    held = case.trace.stored[0]
    at = next(
        ((cls, attr.line) for cls, attr in held.body.attrs("forward")),
        (held.body.cls, held.body.cls.facts.line),
    )
    text = (
        f"the ids end in {held.body.cls.name}.{held.container}, which no method of "
        f"{held.body.cls.name} compares with a layer: nothing is captured"
    )
    fix = f"capture in {held.body.cls.name}.forward, before or after each layer"
    yield _finding(case.wrapper, "SRC-HOOK-HOLLOW", Fault.HOOK_HOLLOW, at, text, fix)


def _shadowed(case: Case) -> Iterator[Finding]:
    """SRC-HOOK-SHADOWED: two different definitions in one class, of which the last wins."""
    for step in case.trace.steps if case.trace else ():
        bound = [a for a in step.facts.attrs.get(step.name, ()) if not a.guarded]
        texts = {attr.source or str(attr.ref) for attr in bound}
        if len(texts) < 2:
            continue
        lines = ", ".join(str(attr.line) for attr in bound[:-1])
        text = f"{step.cls.name}.{step.name} is defined again: this one hides line {lines}"
        fix = "keep one definition"
        at = (step.cls, bound[-1].line)
        yield _finding(case.wrapper, "SRC-HOOK-SHADOWED", Fault.HOOK_SHADOWED, at, text, fix)


def shifts(case: Case, held: Stored) -> set[int | None]:
    """By how many layers a plane misses the layer asked for; `None` when it can't be told."""
    body = _moves([site for _, site in sites(held.body, held.container)])
    outside = {way.offset for way in _ways(case)}
    if held.offset is None or len(body) != 1 or None in body or not outside:
        return {None}
    (inside,) = body
    assert inside is not None
    return {way + held.offset + inside for way in outside}


def _ways(case: Case) -> list[Way]:
    """The ways that ids for this model can go: those for all, and those that name it."""
    own = _plain(case.row.module.rpartition(".")[2])
    return [
        way for way in case.ways if not way.names or any(own in _plain(name) for name in way.names)
    ]


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace(".", "")


def _site_move(site: Site) -> int | None:
    """The layer whose output a site delivers, less the value it is compared with."""
    if site.offset is None:
        return None
    return -site.offset - (0 if site.where == "after" else 1)


def _shift(case: Case) -> Iterator[Finding]:
    """SRC-TAP-SHIFT, over resolver, runner, hook and body."""
    for held in case.trace.stored if case.trace else ():
        if not sites(held.body, held.container):
            continue
        found = shifts(case, held)
        if len(found) > 1 or None in found:
            case.unknown.append(f"shift: {_why_untold(case, held)}")
            continue
        (shift,) = found
        if not shift:
            continue
        fault = Fault.TAP_SHIFT_BEFORE if shift < 0 else Fault.TAP_SHIFT_AFTER
        moved = " + ".join(f"{n:+d} in {part}" for part, n in _parts(case, held) if n)
        text = (
            f"layer id i gives the output of layer i{shift:+d} "
            f"({moved or 'nothing is added on the way'}; for boundary b {held.body.cls.name} "
            f"delivers what {'enters' if _enters(held) else 'leaves'} layer b)"
        )
        fix = f"hand on [i {'-' if shift > 0 else '+'} {abs(shift)} for i in layer_ids]"
        yield _placed(_blame(case, held), "SRC-TAP-SHIFT", fault, text, fix)


def _parts(case: Case, held: Stored) -> Iterator[tuple[str, int]]:
    yield "the runner", next((way.offset for way in _ways(case)), 0)
    yield "the hook", held.offset or 0


def _enters(held: Stored) -> bool:
    return any(_site_move(site) == -1 for _, site in sites(held.body, held.container))


def _blame(case: Case, held: Stored) -> tuple[str, int]:
    """(file, line) where the ids should have been moved: the runner, or the wrapper's own hook."""
    if _one_hook(case) and held.offset == 0:
        way = _ways(case)[0]
        return way.file, way.line
    first = case.trace.steps[0] if case.trace else held.step
    return case.wrapper.tree.file(first.cls), first.setter.line


def _why_untold(case: Case, held: Stored) -> str:
    outside = {way.offset for way in _ways(case)}
    if not outside:
        return "nothing in this tree reads the layer ids of a DFlash config"
    if len(outside) > 1:
        return "what the runner adds depends on the draft or on the runner"
    if held.offset is None:
        return f"what {held.step.cls.name}.{held.step.name} adds differs between its branches"
    return f"the sites of {held.body.cls.name} can't be brought on one index"


def _unchecked(case: Case) -> Iterator[Finding]:
    """SRC-TAP-UNCHECKED: illegal ids are refused late, or never."""
    if case.trace is None or not case.trace.stored:
        return
    ways = _ways(case)
    outside = set.intersection(*(set(way.checks) for way in ways)) if ways else set()
    lacking = [c for c in ("range", "order", "dup") if c not in case.trace.checks | outside]
    if not lacking:
        return
    words = {"range": "range", "order": "order", "dup": "duplicates"}
    step = case.trace.steps[0]
    named = ", ".join(words[check] for check in lacking)
    text = f"nothing on the way to {step.cls.name}.{step.name} checks the ids for {named}"
    fix = "refuse ids that aren't unique, ordered and in range, with the ids in the message"
    at = (step.cls, step.setter.line)
    yield _finding(case.wrapper, "SRC-TAP-UNCHECKED", Fault.TAP_LATE, at, text, fix)


def _last_layer(case: Case) -> Iterator[Finding]:
    """SRC-LAST-LAYER: boundary N is legal, and the body never gets there."""
    if case.trace is None or case.trace.untold or "last" in case.trace.checks:
        return
    found = _sites(case)
    bodies = [held for held in case.trace.stored if sites(held.body, held.container)]
    if not found or not bodies or captures_of(case).final:
        return
    held = bodies[0]
    if shifts(case, held) != {0}:
        return
    cls, site = found[-1]
    text = (
        f"{held.body.cls.name} captures before each layer only: the last layer's output is never "
        "captured, and a draft that asks for it gets a plane too few"
    )
    fix = "capture once more after the loop, when the number of layers is among the boundaries"
    at = (cls, site.line)
    yield _finding(case.wrapper, "SRC-LAST-LAYER", Fault.PLANE_MISSING, at, text, fix)


def _none_unchecked(case: Case) -> Iterator[Finding]:
    """SRC-NONE-UNCHECKED: a missing list of ids is refused late."""
    if case.trace is None or not case.trace.stored or "none" in case.trace.checks:
        return
    if _one_hook(case):
        return  # the runner falls back to the model's default layers, so None never arrives
    step = case.trace.steps[0]
    text = f"{step.cls.name}.{step.name} takes None without a word of its own"
    fix = "raise ValueError when layer_ids is None"
    at = (step.cls, step.setter.line)
    yield _finding(case.wrapper, "SRC-NONE-UNCHECKED", Fault.TAP_LATE, at, text, fix)


def _pp_silent(case: Case) -> Iterator[Finding]:
    """SRC-PP-SILENT: a pipeline rank drops its planes without a word."""
    if case.trace is None:
        return
    text = "a pipeline rank that isn't the last returns without a word: its planes are lost"
    fix = "raise NotImplementedError when the pipeline has more than one rank"
    for step in case.trace.steps:
        if step.setter.silent_pp:
            at = (step.cls, step.setter.silent_pp)
            yield _finding(case.wrapper, "SRC-PP-SILENT", Fault.PP_SILENT, at, text, fix)
    for held in case.trace.stored if _one_hook(case) and not case.pp_checked else ():
        cls = next((cls for cls, _ in held.body.attrs("forward")), None)
        if cls is not None and cls.facts.early_pp:
            at = (cls, cls.facts.early_pp)
            yield _finding(case.wrapper, "SRC-PP-SILENT", Fault.PP_SILENT, at, text, fix)


def _unpack(case: Case) -> Iterator[Finding]:
    """SRC-UNPACK: planes are returned in one shape and taken apart in another, or dropped."""
    if case.trace is None:
        return
    for held in case.trace.stored:
        for at in drops_of(held.body):
            text = (
                f"{at[0].name}.forward takes the planes that it inherits for something else and "
                "returns none"
            )
            fix = "return the planes beside the hidden states"
            yield _finding(case.wrapper, "SRC-UNPACK", Fault.UNPACK_MISMATCH, at, text, fix)
        yield from _handed_on(case, held)


def _handed_on(case: Case, held: Stored) -> Iterator[Finding]:
    """What the object around the body does with what the body returns."""
    assert case.trace is not None
    around = [s.owner for s in case.trace.steps if s.owner.cls != held.body.cls]
    given = sorted(returns_of(held.body), key=lambda r: (r[0].name, r[2]))
    if not around or not given:
        return
    taken = list(unpacks_of(around[-1]))
    if not taken and not _one_hook(case):
        case.unknown.append(f"hand-over: what {around[-1].cls.name}.forward does with the planes")
    lengths = {length for _, length, _ in given}
    for cls, length, line in taken:
        if length in lengths:
            continue
        shown = ", ".join(f"{where.name}:{at}" for where, _, at in given)
        text = f"takes {length} values apart where {shown} returns {min(lengths)}"
        fix = "take apart as many values as the body returns"
        rule = "SRC-UNPACK"
        yield _finding(case.wrapper, rule, Fault.UNPACK_MISMATCH, (cls, line), text, fix)
