"""The clauses on layer ids and on who reads them: without these a start dies, or drafts are wrong.

Structural like those of `_numbers.py`; `_semantics.py` has the rest. A clause's id is its address:
`CFG-IDS` is `cfg_ids`.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from matrix.faults import Fault
from matrix.layouts import Claim
from matrix.preflight._subject import Subject
from matrix.preflight._verdict import Said, clause, cut, fault, ok, shown, skip

__all__: list[str] = []

_INVALID = Fault.CONFIG_INVALID


@clause(
    "CFG-IDS",
    "Layer ids are there, whole numbers, in 0..N-1, unique and increasing, and all keys agree.",
    (
        "vllm#48113",
        "Model-Optimizer#2149",
        "Model-Optimizer#1271",
        "lucebox#447",
        "ik_llama.cpp#1970",
        "Automodel#3083",
        "speculators#440",
    ),
)
def cfg_ids(pair: Subject) -> Said:
    """Every key that states ids, each by itself and then together."""
    depth, found = pair.facts.depth, pair.said.ids
    legal = "increasing whole numbers" + (f" in 0..{depth - 1}" if depth else "")
    if not found:
        if pair.said.method == "eagle3":
            return ok(None, "none stated: every engine takes EAGLE3's three defaults")
        return fault(_INVALID, legal, None, "no key states layer ids")
    for claim in found:
        if problem := _id_problem(pair, claim):
            return fault(_INVALID, legal, claim.value, f"{claim.key}: {problem}")
    if len({claim.outputs for claim in found}) > 1:
        said = {claim.key: list(claim.outputs or ()) for claim in found}
        words = "; ".join(f"{key} says {ids}" for key, ids in said.items())
        return fault(
            _INVALID, "one list under every key", said, f"as outputs of layers, {cut(words)}"
        )
    first = found[0]
    ids = list(first.outputs or ())
    if _copied_unshifted(first, depth):
        return fault(
            Fault.TAP_SHIFT_BEFORE,
            [layer + 1 for layer in ids],
            ids,
            f"{first.key} holds boundaries, but its numbers are those that the usual formula gives "
            "as outputs: either the trainer left out the 1, or it is chance",
        )
    minus = "" if first.semantics == "output" else " minus 1"
    return ok(ids, f"{cut(str(ids))}, from {first.key}{minus}")


def _id_problem(pair: Subject, claim: Claim) -> str | None:
    ids, depth = claim.outputs, pair.facts.depth
    if ids is None:
        return f"is {shown(claim.value)}; it should be a list of whole numbers"
    if not ids:
        return "is empty; a draft reads at least one layer"
    if twice := sorted(layer for layer, times in Counter(ids).items() if times > 1):
        return f"{cut(str(twice))} stand there more than once, and are captured once (as outputs)"
    outside = [layer for layer in ids if layer < 0 or (depth is not None and layer >= depth)]
    if outside:
        last = "N-1" if depth is None else depth - 1
        return f"{cut(str(outside))} are not in 0..{last} (as outputs)"
    # The authors' code alone keeps the order that is asked for.
    if pair.engine != "transformers" and any(a > b for a, b in pairwise(ids)):
        return "is not increasing; vLLM and SGLang hand the planes over in sorted order"
    return None


def _copied_unshifted(claim: Claim, depth: int | None) -> bool:
    if claim.semantics == "output" or depth is None or len(claim.value) < 3 or depth < 4:
        return False
    last, count = depth - 3, len(claim.value)
    return bool(claim.value == [round(1 + i * (last - 1) / (count - 1)) for i in range(count)])


@clause(
    "CFG-GUESS",
    "Layer ids are stated, so that nobody guesses them.",
    ("sglang#37475", "sglang#37476", "z-lab/dflash#156", "lmdeploy#4991", "speculators#440"),
)
def cfg_guess(pair: Subject) -> Said:
    """Without ids, engines guess; the guess has the right count more often than the right ids."""
    if pair.said.method == "eagle3":
        return skip("EAGLE3's defaults are a convention, not a guess")
    if pair.said.ids:
        return ok(pair.said.ids[0].key, f"{pair.said.ids[0].key} states them")
    guessed = {
        f"{reading.engine} ({reading.resolver})": list(reading.ids)
        for reading in pair.readings
        if reading.ids is not None
    }
    words = (
        "; ".join(f"{who} takes {ids}" for who, ids in guessed.items()) or "every engine refuses"
    )
    return fault(Fault.TAP_GUESS, "stated layer ids", guessed, f"none are stated: {words}")


@clause(
    "CFG-ARCH",
    "A release of the engine knows the draft's class, and the target's class offers it the hook.",
    ("spark-vllm-docker#364", "vllm#24967", "vllm#45319", "sglang#34771", "optimum-intel#1756"),
)
def cfg_arch(pair: Subject) -> Said:
    """From the committed scans; the authors' code is known by its two classes."""
    if pair.facts.arch is None:
        return fault(_INVALID, "architectures", None, "the target's config names no class")
    if pair.engine == "transformers":
        return _arch_of_dflash(pair)
    # Of the last layer's plane `CFG-LAST` speaks.
    able = {
        engine: known
        for engine, found in pair.releases.items()
        if (known := [start.version for start in found if start.verdict != "dies" or start.last])
    }
    if able:
        words = "; ".join(f"{engine} {_span(versions)}" for engine, versions in able.items())
        return ok(able, f"{_classes(pair)} is known to {words}")
    newest = {engine: found[-1] for engine, found in pair.releases.items() if found}
    reasons = {f"{engine} {start.version}": start.why for engine, start in newest.items()}
    words = "; ".join(f"{release} {why}" for release, why in reasons.items())
    label = Fault.HOOK_MISSING if "hook" in words.lower() else Fault.START_REFUSED
    return fault(label, "a release that starts it", reasons, f"no scanned release does: {words}")


def _arch_of_dflash(pair: Subject) -> Said:
    known = ("DFlashDraftModel", "DFlash2DraftModel")
    name, refusal = pair.classes["transformers"].name, pair.refusal("transformers")
    if name in known and refusal is None:
        return ok(name, f"the authors' code has {name}")
    words = f"the authors' code has no {name}" if name not in known else "the authors' code refuses"
    words += f": it {refusal}" if refusal else ""
    return fault(Fault.START_REFUSED, " or ".join(known), name, words)


def _classes(pair: Subject) -> str:
    names = {
        draft.name
        for engine, draft in pair.classes.items()
        if engine in pair.releases and draft.name
    }
    return f"{pair.facts.arch} with {' / '.join(sorted(names))}"


def _span(versions: list[str]) -> str:
    return versions[0] if len(versions) == 1 else f"{versions[0]} - {versions[-1]}"


@clause(
    "CFG-RUNNER-SPLIT",
    "Every resolver in view reads the ids that the file states.",
    ("vllm#49559", "vllm#40727", "sglang#32334", "lmdeploy#4991"),
)
def cfg_runner_split(pair: Subject) -> Said:
    """Refusals don't count: they are no silent disagreement."""
    if not pair.said.ids:
        return skip("no ids are stated to be read in two ways")
    if pair.id_claim is None:
        return skip("no key holds a list of whole numbers; CFG-IDS says which")
    read = {f"{r.engine} ({r.resolver})": r for r in pair.readings if r.ids is not None}
    if not read:
        return skip("no resolver in view takes this file")
    taken: dict[str, Any] = {who: list(reading.ids or ()) for who, reading in read.items()}
    stated = list(pair.ids or ())
    if all(ids == stated for ids in taken.values()):
        return ok(stated, f"{', '.join(taken)} read the same")
    words = "; ".join(
        f"{who} takes {cut(str(ids))}" + ("" if read[who].how == "read" else f" ({read[who].how})")
        for who, ids in taken.items()
        if ids != stated
    )
    return fault(
        Fault.RUNNER_SPLIT, stated, taken, f"{pair.id_claim.key} says {cut(str(stated))}; {words}"
    )
