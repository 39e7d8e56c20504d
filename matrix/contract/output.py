"""OUTPUT-*: what the user sees is still the target's own, and the counters say what happened."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from matrix.contract._bench import Bench, Run, dying
from matrix.contract._clause import Finding, Skip, Verdict, clause
from matrix.contract._counts import Measured, adds_up, measure, profile, total, unequal
from matrix.contract._distribution import ALPHA, Ranked, misfit, surplus
from matrix.contract._fuzz import fuzz
from matrix.contract._inputs import continuation, forced, forcing
from matrix.contract._lossless import differing, tau
from matrix.contract._planes import death
from matrix.engines import Inject, Request, Sampling, Step
from matrix.errors import EngineError
from matrix.faults import GIVES, Fault

__all__ = [
    "output_counters",
    "output_dist",
    "output_forced",
    "output_k",
    "output_lossless",
    "output_stop",
]

SAMPLES: Final = 1000
"""Requests that OUTPUT-DIST samples, two tokens each."""
TOP_K: Final = 32
"""Tokens that it samples from."""
WAYS: Final = ((True, 1.0), (True, 0.999999), (False, 0.999999))
"""Ways to one distribution: a seed for each request or none, and a top-p that cuts nothing off."""


@clause(
    "OUTPUT-LOSSLESS",
    "Every emitted token is the target's own choice, given the prefix that was emitted.",
    needs=("start", "draft", "reference"),
    settings=("plain", "main"),
    catches=("sglang#38009", "vllm#39273", "rMLX#513", "llama.cpp#27975", "vllm-ascend#8627"),
)
def output_lossless(bench: Bench) -> Verdict:
    """With the draft's own drafts and with drafts that are accepted in part; teacher-forced."""
    tokens = bench.twin.block_size + 5
    requests = [Request(prompt, tokens) for prompt in bench.prompts(1, 6, 23)]
    if bench.has("inject") and bench.examples.only is None:
        prompt = bench.prompts(9, salt="forced")[0]
        mixed = {"prompt": prompt, "accept": [1, bench.drafts, 0, bench.drafts - 1]}
        requests.append(forcing(bench, mixed))
    runs = bench.run(*requests)
    found, worst = differing(bench, runs, "speculative output")
    found += [
        Finding(
            Fault.OUTPUT_DIFFERS,
            f"{len(run.generation.tokens)} tokens, {run.request.max_tokens} due",
        )
        for run in runs
        if len(run.generation.tokens) != run.request.max_tokens and not found
    ][:1]
    emitted = sum(len(run.generation.tokens) for run in runs)
    return Verdict(
        tuple(found),
        expected="the target's own tokens",
        actual=f"largest gap {worst:.3g} over {emitted} tokens",
        tolerance=tau(bench),
        margin=tau(bench) / worst if worst else None,
        metrics={"gap": worst, "tokens": emitted},
    )


@clause(
    "OUTPUT-FORCED",
    "With drafts put in, the counters read what was put in and the output stays the target's own.",
    needs=("inject",),
    catches=("vllm#52942", "vllm#50012", "beellama#39", "sglang#34959"),
)
def output_forced(bench: Bench) -> Verdict:
    """Accept all, k, none, mixtures, and wrong drafts that are the mask token."""

    def check(example: dict[str, Any]) -> list[Finding]:
        try:
            run = bench.run(forcing(bench, example))[0]
        except EngineError as error:
            return list(death(bench, error, GIVES["OUTPUT-FORCED"]))
        found, _ = differing(bench, [run], "output with forced drafts")
        return found + _miscounted(run, example["accept"], bench.drafts)

    prompt, k = bench.prompts(9, salt="forced")[0], bench.drafts
    patterns: list[dict[str, Any]] = [{"accept": [k]}, {"accept": [0]}, {"accept": [k // 2, 0, k]}]
    patterns.append({"accept": [0, 1], "mask": True})
    always = [{"prompt": prompt, **pattern} for pattern in patterns]
    search = fuzz(bench, forced(bench), check, always=always)
    return Verdict(
        search.causes,
        expected="accepted counts as put in",
        actual=f"{len(search.tried)} patterns tried",
        metrics={"examples": len(search.tried)},
    )


def _chose_otherwise(run: Run, emitted: int, step: Step, due: int) -> bool:
    """Whether the target refused a draft that should be right, or took one that should be wrong.

    What was emitted there tells: counts that agree with it are right.
    """
    first = min(step.accepted, due)
    at, tokens = emitted + first, run.generation.tokens
    if at >= len(tokens) or first >= len(step.drafted):
        return False
    return (tokens[at] == step.drafted[first]) == (step.accepted > due)


def _miscounted(run: Run, accept: list[int], drafts: int) -> list[Finding]:
    """Where the steps' counts are not what was put in, or the output is not what they say."""
    steps, emitted = run.generation.steps, 1
    if not steps or not any(step.drafted for step in steps):
        return [Finding(Fault.SPEC_INACTIVE, "no step took the drafts that were put in")]
    for i, step in enumerate(steps):
        put = min(drafts, run.request.max_tokens - emitted)  # more could not be emitted any more
        if put and not step.drafted:
            return [Finding(Fault.SPEC_INACTIVE, f"step {i}: nothing was drafted, {put} put in")]
        if len(step.drafted) < put:
            text = f"step {i}: {len(step.drafted)} drafts verified, {put} put in"
            return [Finding(Fault.COUNTERS_WRONG, text)]
        due = min(accept[i % len(accept)], len(step.drafted))
        if step.accepted != due and _chose_otherwise(run, emitted, step, due):
            return []  # that is for the output's own judgement
        if step.accepted != due:
            text = f"step {i}: {step.accepted} of {len(step.drafted)} accepted, {due} put in"
            return [Finding(Fault.COUNTERS_WRONG, text)]
        emitted += step.accepted + 1
    if min(emitted, run.request.max_tokens) != len(run.generation.tokens):
        text = f"{len(run.generation.tokens)} tokens emitted, the counts say {emitted}"
        return [Finding(Fault.COUNTERS_WRONG, text)]
    return []


@clause(
    "OUTPUT-STOP",
    "A stop token and `max_tokens` inside a block cut the output right there.",
    needs=("start", "draft", "reference"),
    catches=("vllm#50012", "rMLX#513"),
)
def output_stop(bench: Bench) -> Verdict:
    """All drafts accepted where they can be put in, so that the block runs on past the cut."""
    prompt = bench.prompts(9, salt="forced")[0]
    known = continuation(bench, prompt, 3 * bench.twin.block_size)
    block = bench.twin.block_size
    inject = Inject(known, [bench.drafts]) if bench.has("inject") else None
    cuts = [1, 2, block - 1, block, block + 2]
    requests, due = [], []
    for cut in cuts:
        requests.append(Request(prompt, cut, inject=inject))
        due.append(known[:cut])
        stop = known[cut - 1]
        requests.append(Request(prompt, 2 * block, stop=[stop], inject=inject))
        due.append(known[: known.index(stop) + 1])
    runs = bench.run(*requests)
    found = []
    for run, tokens in zip(runs, due, strict=True):
        if run.generation.tokens != tokens and not _tied(bench, run):
            where = f"{run.request.max_tokens} tokens"
            if run.request.stop:
                where = f"stop {run.request.stop}"
            got = run.generation.tokens
            part = next(
                (i for i, (a, b) in enumerate(zip(got, tokens, strict=False)) if a != b), -1
            )
            text = f"cut at {where}: {len(got)} tokens, {len(tokens)} due"
            text += f"; token {part} is {got[part]}, {tokens[part]} due" if part >= 0 else ""
            found.append(Finding(Fault.OUTPUT_DIFFERS, text, example={"prompt": prompt}))
    return Verdict(
        tuple(found[:1]),
        expected="output up to and with the cut",
        actual=f"{len(runs)} cuts tried, {len(found)} wrong",
        metrics={"cuts": len(runs)},
    )


def _tied(bench: Bench, run: Run) -> bool:
    """Whether the output parts from the reference only on a near-tie, as half precision may.

    From there on it is another text, which must be cut by its own tokens.
    """
    tokens, stop = run.generation.tokens, run.request.stop
    ends = [at for at, token in enumerate(tokens) if token in stop]
    cut = ends[0] + 1 if ends else run.request.max_tokens
    return len(tokens) == cut and not differing(bench, [run], "")[0]


@clause(
    "OUTPUT-K",
    "Any number of drafts per step from 1 to the block keeps the output the target's own.",
    needs=("drafts",),
    catches=("vllm#50012", "vllm-ascend#8627", "speculators#456"),
)
def output_k(bench: Bench) -> Verdict:
    """1, block - 2, block - 1 and, where the engine takes it, block; 0 drafts are plain steps."""
    block = bench.twin.block_size
    started = bench.started.get("main")
    highest = (started.most_drafts if started else None) or block
    sizes = sorted({0, 1, max(1, block - 2), block - 1, highest})
    prompt = bench.prompts(7, salt="k")[0]
    runs = []
    for k in sizes:
        runs += bench.run(Request(prompt, block + 3, drafts=k))
    found, worst = differing(bench, runs, "output")
    drafted = {
        k: max((len(s.drafted) for s in run.generation.steps), default=0)
        for k, run in zip(sizes, runs, strict=True)
    }
    for k, most in drafted.items():
        if k and not most:
            found.append(Finding(Fault.SPEC_INACTIVE, f"{k} drafts per step asked for, none made"))
        elif most > k:
            found.append(Finding(Fault.COUNTERS_WRONG, f"{most} drafts in a step, {k} asked for"))
    return Verdict(
        tuple(found[:1]),
        expected="the target's own tokens, at most k drafts a step",
        actual=f"most drafts in a step, by k: {drafted}; largest gap {worst:.3g}",
        tolerance=tau(bench),
        metrics={"gap": worst},
    )


@clause(
    "OUTPUT-DIST",
    "Sampled tokens follow the target's own distribution, drafts or none.",
    needs=("sample", "inject"),
    catches=("vllm#39273", "rMLX#513"),
)
def output_dist(bench: Bench) -> Verdict:
    """Half of the samples from a prefill, half behind a draft that the target likes best.

    The draft stands for the prefix's most likely token, so that accepting too often, or drawing
    from the wrong remainder after a rejection, shows at once. An engine that dies of one way
    of sampling is asked in another, so that its distribution is judged all the same.
    """
    prompt = bench.prompts(40, salt="dist")[0]
    first = _ranked(bench, prompt)
    second = {token: _ranked(bench, [*prompt, token]) for token in first.tokens}
    inject = Inject(after={token: [ranked.tokens[0]] for token, ranked in second.items()})

    def sampled(seed: int | None, top_p: float) -> list[Run]:
        request = Request(prompt, 2, inject=inject, salt="dist", planes=False)
        seeds = [None if seed is None else seed + i for i in range(4)]
        return bench.run(*(replace(request, sampling=Sampling(s, TOP_K, top_p)) for s in seeds))

    found, start = list[Finding](), bench.seed * SAMPLES
    seeded, top_p = True, 1.0
    for seeded, top_p in WAYS:
        try:
            sampled(start if seeded else None, top_p)
            break
        except EngineError as error:
            found.append(dying(error, GIVES["OUTPUT-DIST"], otherwise=Fault.UNKNOWN))
    else:
        return Verdict(tuple(found), expected="samples", actual="none: every way died")
    runs = [
        run for at in range(0, SAMPLES, 4) for run in sampled(start + at if seeded else None, top_p)
    ]
    if not any(step.drafted for run in runs for step in run.generation.steps):
        return Verdict((Finding(Fault.SPEC_INACTIVE, "nothing was drafted while sampling"),))
    wrong, measured = _distributed(first, second, [run.generation.tokens for run in runs])
    found += wrong
    return Verdict(
        tuple(found),
        expected=f"{2 * SAMPLES} samples from softmax over the {TOP_K} best tokens",
        actual=measured,
        metrics={"samples": 2 * SAMPLES, "alpha": ALPHA, **measured},
    )


def _ranked(bench: Bench, prefix: list[int]) -> Ranked:
    return Ranked(bench.states(prefix).logits[len(prefix) - 1], TOP_K, tau(bench))


def _distributed(
    first: Ranked, second: dict[int, Ranked], samples: list[list[int]]
) -> tuple[list[Finding], dict[str, float]]:
    """Findings on the first and the second token of every sample, and what was measured."""
    ranks: dict[str, list[int]] = {"first": [], "second": []}
    expected = {"first": np.zeros(TOP_K), "second": np.zeros(TOP_K)}
    drafted: list[float] = []
    for one, two in samples:
        behind = second.get(one) or next(iter(second.values()))
        for name, ranked, token in (("first", first, one), ("second", behind, two)):
            rank = ranked.rank(token)
            if rank is None:
                text = f"the {name} sampled token {token} isn't among the {TOP_K} most likely"
                return [Finding(Fault.OUTPUT_DIFFERS, text)], {}
            ranks[name].append(rank)
            expected[name] += ranked.probabilities
        drafted.append(float(behind.probabilities[0]))
    found, measured = list[Finding](), dict[str, float]()
    for name, got in ranks.items():
        statistic, bound = misfit(got, expected[name])
        measured |= {f"{name}_chi2": round(statistic, 2), f"{name}_bound": round(bound, 2)}
        if statistic > bound:
            text = f"{name} tokens: chi-square {statistic:.1f}, by chance at most {bound:.1f}"
            found.append(Finding(Fault.OUTPUT_DIFFERS, text))
            break
    hits = ranks["second"].count(0)
    measured |= {"drafted": hits, "drafted_expected": round(sum(drafted), 1)}
    if surplus(hits, drafted):
        text = f"the drafted token came {hits} times, {sum(drafted):.0f} expected"
        found = [Finding(Fault.OUTPUT_DIFFERS, text)]
    return found, measured


@clause(
    "OUTPUT-COUNTERS",
    "The counters add up to the tokens: accepted within drafted, and no token from nowhere.",
    needs=("start", "draft"),
    catches=("ds4#468", "vllm#39273", "speculators#456"),
)
def output_counters(bench: Bench) -> Verdict | Skip:
    """1 + sum(accepted + 1) - emitted lies in 0..k, and is 0 where nothing was cut."""
    requests = [
        Request(prompt, n) for prompt, n in zip(bench.prompts(3, 8, 15), (9, 20, 31), strict=False)
    ]
    if bench.has("inject") and bench.examples.only is None:
        requests += [
            forcing(bench, {"prompt": bench.prompts(9, salt="forced")[0], "accept": accept})
            for accept in ([bench.drafts], [2, 0], [0])
        ]
    measured = measure(bench, *requests, page=True)
    if isinstance(measured, Skip):
        return measured
    found = _contradictions(bench, measured)
    if not measured.drafted:
        found = [Finding(Fault.SPEC_INACTIVE, "nothing was drafted, so nothing was counted")]
    others = f"; {measured.foreign}" if measured.foreign else ""
    counted = f"{measured.accepted} of {measured.drafted} accepted"
    return Verdict(
        tuple(found[:1]),
        expected="counters that agree with the tokens",
        actual=f"{counted} over {len(measured.runs)} requests{others}",
        metrics={
            "drafted": measured.drafted,
            "accepted": measured.accepted,
            "profile": profile(measured.counts, bench.drafts),
        },
    )


def _contradictions(bench: Bench, measured: Measured) -> list[Finding]:
    """Within the counts, with the tokens, and between each request's counts and everybody's."""
    runs, counts = measured.runs, measured.counts
    if bench.has("steps"):
        found = [finding for run in runs for finding in _inconsistent(run)]
        told = [
            (f"a request's counters: {text}")
            for run, count in zip(runs, counts, strict=True)
            for text in unequal(run.generation.counted or count, count)
        ]
    else:
        each = [[run] for run in runs] if len(counts) == len(runs) else [runs]
        found = [
            finding
            for count, of in zip(counts, each, strict=True)
            for finding in adds_up(count, of, bench.drafts)
        ]
        told = []
    if measured.page is not None and not measured.foreign:
        texts = unequal(measured.page, total(counts))
        told = [f"the engine's counters: {text}" for text in texts] + told
    return found + [Finding(Fault.COUNTERS_WRONG, text) for text in told]


def _inconsistent(run: Run) -> list[Finding]:
    steps, emitted = run.generation.steps, len(run.generation.tokens)
    if any(step.accepted > len(step.drafted) for step in steps):
        return [Finding(Fault.COUNTERS_WRONG, "a step accepted more than it drafted")]
    counts = [step.accepted + 1 for step in steps]
    over = 1 + sum(counts) - emitted
    most = max((len(step.drafted) for step in steps), default=0)
    # A cut can only fall into the last step: without it the sum must be short of the whole.
    cut = bool(counts) and 1 + sum(counts[:-1]) < emitted
    if not 0 <= over <= most or (over and not cut):
        text = (
            f"1 + sum(accepted + 1) is {over} over the {emitted} tokens emitted, 0..{most} is legal"
        )
        return [Finding(Fault.COUNTERS_WRONG, text, example={"prompt": run.request.prompt})]
    return []
