"""AUX-*: the captured planes are the right states, in every way that they are computed.

The id is the address, but for this one: a module `aux.py` can't exist on Windows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from matrix import strategies
from matrix.contract._bench import Bench, Run
from matrix.contract._clause import Finding, Skip, Verdict, clause
from matrix.contract._fuzz import fuzz
from matrix.contract._inputs import continuation, forced, forcing
from matrix.contract._logits import logit_tolerance, logits_off
from matrix.contract._lossless import differing
from matrix.contract._planes import Final, Judged, Kind, death, judge, merge, verdict
from matrix.engines import Forward, Inject, Request
from matrix.errors import HarnessError
from matrix.faults import GIVES, Fault, Phase

__all__ = [
    "aux_batch",
    "aux_chunk",
    "aux_count",
    "aux_decode",
    "aux_inert",
    "aux_long",
    "aux_public",
    "aux_reuse",
    "aux_shape",
    "aux_tp",
    "aux_value",
]

_COUNTS = frozenset({Fault.PLANE_MISSING, Fault.HOOK_HOLLOW, Fault.UNPACK_MISMATCH})


def _final(bench: Bench) -> Final:
    """What the row says of its last-layer tap; unknown counts either as right."""
    return "either" if bench.pair.final_tap == "unknown" else bench.pair.final_tap


def _judged(
    bench: Bench,
    clause_id: str,
    requests: Sequence[Request],
    kinds: Sequence[Kind] = ("prefill",),
    phase: Phase = Phase.ALL,
) -> tuple[Judged, list[Run]]:
    """Run the requests and judge their planes; what was seen before the engine raised counts."""
    runs = bench.run(*requests, partial=True)
    judged = judge(bench, runs, bench.ids, kinds=kinds, phase=phase, final=_final(bench))
    for run in runs:
        if run.error is not None and not judged.findings:
            judged.findings += death(bench, run.error, GIVES[clause_id])
    return judged, runs


def _shapes(bench: Bench, clause_id: str, wanted: frozenset[Fault]) -> Verdict:
    requests = [Request(prompt, 4) for prompt in bench.prompts(1, 5, 17)]
    if bench.has("inject") and bench.examples.only is None:
        prompt = bench.prompts(9, salt="forced")[0]
        requests.append(forcing(bench, {"prompt": prompt, "accept": [2, 0, bench.drafts]}))
    judged, _ = _judged(bench, clause_id, requests, ("prefill", "verify"))
    if judged.rows:  # else whatever kept them from being compared is what there is to say
        judged.findings = [finding for finding in judged.findings if finding.label in wanted]
    return verdict(bench, judged, expected=f"{len(bench.ids)} planes of width {bench.twin.width}")


@clause(
    "AUX-COUNT",
    "The target hands over one plane for each layer id, and the draft receives as many.",
    needs=("planes",),
    catches=("vllm#36527", "sglang#38589", "Model-Optimizer#2149", "vllm#48124"),
)
def aux_count(bench: Bench) -> Verdict:
    """A setter that succeeded proves nothing: planes are counted."""
    return _shapes(bench, "AUX-COUNT", _COUNTS)


@clause(
    "AUX-SHAPE",
    "Every plane has the target's width, and a row for every position that was computed.",
    needs=("planes",),
    catches=("sglang#32334", "vllm#51016", "SpecForge#471"),
)
def aux_shape(bench: Bench) -> Verdict:
    """Width, rows, and no rejected row in the draft's context."""
    return _shapes(bench, "AUX-SHAPE", frozenset({Fault.PLANE_SHAPE}))


@clause(
    "AUX-VALUE",
    "After a prefill, every plane is the output of the layer that the row asks for.",
    needs=("planes",),
    catches=(
        "vllm#40727",
        "vllm#42704",
        "onnxruntime-genai#2538",
        "sglang#38096",
        "TensorRT-LLM#6199",
        "vllm#46301",
        "TorchSpec#87",
    ),
)
def aux_value(bench: Bench) -> Verdict:
    """With the ids as they were resolved at start, never set again by us."""
    requests = [Request(prompt, 2) for prompt in bench.prompts(1, 5, 17, 40)]
    judged, _ = _judged(bench, "AUX-VALUE", requests)
    return verdict(bench, judged, expected=f"outputs of layers {bench.ids}")


@clause(
    "AUX-DECODE",
    "In verify steps, rows 0 to accepted are the right states, and the draft receives those only.",
    needs=("planes",),
    catches=("SpecForge#471", "tokenspeed#263", "sglang#38589", "ATOM#882", "vllm#41703"),
)
def aux_decode(bench: Bench) -> Verdict:
    """Drafts of mixed acceptance are put in, since a random draft is never accepted.

    Where none can be put in, the steps are what the engine makes of the same requests by itself.
    """
    worst = Judged()

    def check(example: dict[str, Any]) -> list[Finding]:
        judged, _ = _judged(
            bench, "AUX-DECODE", [forcing(bench, example)], ("verify",), Phase.DECODE
        )
        worst.take(judged)
        return judged.findings

    mixed = {
        "prompt": bench.prompts(9, salt="forced")[0],
        "accept": [bench.drafts, 0, 1, bench.drafts // 2],
    }
    search = fuzz(bench, forced(bench), check, always=[mixed])
    worst.findings = list(search.causes)
    return verdict(bench, worst, expected="states of the emitted sequence, accepted rows only")


@clause(
    "AUX-BATCH",
    "Requests that run in one step get their own planes.",
    needs=("planes", "batch"),
    catches=("sglang#36548", "vllm#42971", "atlas#693"),
)
def aux_batch(bench: Bench) -> Verdict:
    """Two to four requests of different lengths at once, prefill and decode."""
    worst = Judged()

    def check(example: dict[str, Any]) -> list[Finding]:
        requests = [
            Request(prompt, 12, salt=f"batch-{i}") for i, prompt in enumerate(example["prompts"])
        ]
        judged, _ = _judged(bench, "AUX-BATCH", requests, ("prefill", "verify"), Phase.BATCH)
        worst.take(judged)
        return judged.findings

    batches = strategies.batches(bench.twin.vocab_size, mask_token_id=bench.twin.mask_token_id)
    inputs = st.fixed_dictionaries({"prompts": batches})
    fixed = {"prompts": bench.prompts(3, 21, 9, 34, salt="batch")}
    worst.findings = list(fuzz(bench, inputs, check, always=[fixed]).causes)
    return verdict(bench, worst, expected="each request's own states")


@clause(
    "AUX-INERT",
    "With capture on, the target's logits are what they are without it.",
    needs=("logits",),
    settings=("plain", "main"),
    catches=("vllm#52184", "sglang#38589", "vllm-ascend#13538"),
)
def aux_inert(bench: Bench) -> Verdict:
    """Compared with the reference, never with the same engine: an in-place fault is in both.

    The same engine without capture, or its plain start, only tells whose fault it is. The prefill
    has nothing behind it but the capture; logits that are wrong in verify steps alone may come from
    the target's own state, so their fault is not named here.
    """
    requests = [Request(prompt, 10, logits=True) for prompt in bench.prompts(5, 17)]
    prefill, verify = logits_off(bench, bench.run(*requests))
    rows = prefill.rows + verify.rows
    if not rows:
        raise HarnessError("no logit row was compared: the clause saw nothing")
    worst, tolerance = max(prefill.worst, verify.worst), logit_tolerance(bench)
    found = []
    if worst > tolerance:
        label, phase, why = _blame(bench, requests, prefill.worst)
        where = prefill.where if prefill.worst >= verify.worst else verify.where
        found = [Finding(label, f"logits at position {where} are {worst:.2e} off; {why}", phase)]
    return Verdict(
        tuple(found),
        expected="the reference's logits",
        actual=f"largest relative distance {worst:.2e} over {rows} rows",
        tolerance=tolerance,
        margin=tolerance / worst if worst else None,
        metrics={"worst": worst, "rows": rows},
    )


def _blame(bench: Bench, requests: Sequence[Request], prefill: float) -> tuple[Fault, Phase, str]:
    """Whether wrong logits are the capture's doing: without it, the same engine has the right ones."""
    if prefill <= logit_tolerance(bench):
        return Fault.UNKNOWN, Phase.DECODE, "those of verify steps alone, the prefill's are right"
    if not bench.has("drafts"):
        return Fault.CAPTURE_INTERFERES, Phase.ALL, "from the prefill on"
    runs = bench.run(*(replace(request, drafts=0) for request in requests))
    without: float | None = logits_off(bench, runs)[0].worst
    if any(forward.handed for run in runs for forward in run.generation.forwards):
        without = bench.memo.get("plain_logits")  # drafts or none, this engine captures
    if without is None:
        return Fault.UNKNOWN, Phase.ALL, "and no start without capture to compare with"
    if without > logit_tolerance(bench):
        return Fault.UNKNOWN, Phase.ALL, "without capture too, so the target itself differs"
    return Fault.CAPTURE_INTERFERES, Phase.ALL, "without capture they are right"


@clause(
    "AUX-REUSE",
    "On a prefix-cache hit the planes cover exactly the computed positions, and drafting goes on.",
    needs=("planes", "prefix-cache"),
    catches=("vllm#47930", "z-lab/dflash#165", "llama-cpp-turboquant#231", "ATOM#882"),
)
def aux_reuse(bench: Bench) -> Verdict:
    """The same prompt twice, with another request between the two."""
    first, between = bench.prompts(90, 70, salt="reuse")
    cold = Request(first, 12, salt="reuse")
    other = Request(between, 4, salt="other")
    runs = [bench.run(request)[0] for request in (cold, other, cold)]
    warm = runs[2].generation
    if not warm.cached_tokens:
        raise HarnessError("nothing was cached: the clause saw no reuse")
    judged = judge(bench, [runs[0], runs[2]], bench.ids, kinds=("prefill", "verify"))
    found = list(judged.findings)
    if bench.has("draft") and not sum(len(step.drafted) for step in warm.steps):
        found.append(Finding(Fault.SPEC_INACTIVE, "nothing was drafted on the cache hit"))
    counts = [[step.accepted for step in run.generation.steps] for run in (runs[0], runs[2])]
    if counts[0] != counts[1]:
        text = f"accepted per step: {counts[0]} cold, {counts[1]} on the cache hit"
        found.append(Finding(Fault.ACCEPTANCE_COLLAPSE, text))
    judged.findings = merge(found)
    return verdict(bench, judged, expected=f"planes from position {warm.cached_tokens}")


@clause(
    "AUX-CHUNK",
    "The planes of a chunked prefill, joined by position, equal those of one prefill.",
    needs=("planes", "chunk"),
    catches=("vllm#56771", "ninfer#5", "TensorRT-LLM#8910"),
)
def aux_chunk(bench: Bench) -> Verdict:
    """A prompt of more than two chunks; judged against one teacher-forced forward."""
    request = Request(bench.prompts(150, salt="chunk")[0], 4, salt="chunk")
    judged, runs = _judged(bench, "AUX-CHUNK", [request], ("prefill",))
    chunks = [f.position for f in runs[0].generation.forwards if f.kind == "prefill"]
    if len(chunks) < 2 and not judged.findings:
        raise HarnessError("the prefill came in one piece: the clause saw no chunks")
    return verdict(bench, judged, expected=f"one prefill's states, over chunks at {chunks}")


@clause(
    "AUX-LONG",
    "Planes stay right past 700 tokens, past any window.",
    needs=("planes",),
    catches=("llama.cpp#24541", "vllm#40898", "sglang#27638", "ik_llama.cpp#2021"),
)
def aux_long(bench: Bench) -> Verdict:
    """One long prompt, its prefill and the decode steps behind it."""
    prompt = bench.prompts(720, salt="long")[0]
    inject = None
    if bench.has("inject"):  # steps of several rows: a lone row doesn't tell where it comes from
        inject = Inject(continuation(bench, prompt, 12 + bench.twin.block_size), [2, 0, 3])
    request = Request(prompt, 12, inject=inject, salt="long")
    judged, _ = _judged(bench, "AUX-LONG", [request], ("prefill", "verify"), Phase.LONG)
    return verdict(bench, judged, expected=f"outputs of layers {bench.ids} over 720 tokens")


@clause(
    "AUX-PUBLIC",
    "The engine's public way to get planes gives the planes that the target hands over.",
    needs=("planes", "public"),
    settings=("main", "public"),
    catches=("vllm#36485", "vllm#46301", "vllm#51016"),
)
def aux_public(bench: Bench) -> Verdict:
    """Both ways in one start, each against the reference, so that they agree with each other."""
    runs = bench.run(*(Request(prompt, 2) for prompt in bench.prompts(5, 17, 40)))
    if not all(run.generation.public for run in runs):
        raise HarnessError("the public way gave no planes: the clause saw nothing")
    both = judge(bench, runs, bench.ids, final=_final(bench), places=("handed",))
    shown = [_as_handed(run, [Forward("prefill", 0, run.generation.public)]) for run in runs]
    public = judge(bench, shown, bench.ids, final=_final(bench), places=("handed",))
    both.findings = merge(
        [*both.findings, *(_placed(f, "the public way: ") for f in public.findings)]
    )
    both.take(public)
    return verdict(bench, both, expected=f"outputs of layers {bench.ids}, by either way")


def _as_handed(run: Run, forwards: list[Forward]) -> Run:
    """The run with other planes in the place of those that it handed over."""
    return Run(run.request, replace(run.generation, forwards=forwards), run.ids)


def _placed(finding: Finding, where: str) -> Finding:
    """The same finding, with where it was seen in front of its evidence."""
    return dataclasses.replace(finding, evidence=where + finding.evidence)


@clause(
    "AUX-TP",
    "Over two tensor-parallel ranks, planes and output are those of one rank, on every rank.",
    needs=("planes", "ranks"),
    settings=("tp2",),
    catches=("TensorRT-LLM#6199", "vllm-ascend#13538"),
)
def aux_tp(bench: Bench) -> Verdict | Skip:
    """Judged against the reference, which is what one rank is judged against too."""
    if refusal := bench.refused.get("tp2"):
        return Skip("needs-gpu", f"two tensor-parallel ranks don't start here: {refusal}")
    runs = bench.run(*(Request(prompt, 12) for prompt in bench.prompts(5, 17, 40)))
    worst, found = Judged(), list[list[Finding]]()
    for rank in range(2):
        mine = [_as_handed(run, run.generation.ranks[rank]) for run in runs]
        judged = judge(bench, mine, bench.ids, final=_final(bench), places=("handed",))
        worst.take(judged)
        found.append([_placed(f, f"rank {rank}: ") for f in judged.findings])
    labels = [{finding.label for finding in each} for each in found]
    worst.findings = merge([*found[0], *found[1]])
    if labels[0] != labels[1]:
        said = "; ".join(f.evidence for f in worst.findings)
        worst.findings = [Finding(Fault.RANK_SPLIT, f"the ranks' planes differ: {said}")]
    worst.findings += differing(bench, runs, "output over two tensor-parallel ranks")[0]
    return verdict(bench, worst, expected=f"outputs of layers {bench.ids} on both ranks")
