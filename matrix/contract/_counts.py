"""What was counted of some requests: by the steps that were seen, or by the engine itself.

Over HTTP no step can be seen. There each request's own counts stand in its answer, or only sums
of all requests stand on a page, which are ours as long as nobody else was served meanwhile.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from matrix.contract._bench import Bench, Run
from matrix.contract._clause import Finding, Skip
from matrix.engines import Counters, Request
from matrix.faults import Fault

__all__ = ["Measured", "adds_up", "measure", "profile", "seen", "total", "unequal"]


@dataclass(frozen=True)
class Measured:
    """Some requests, all sent at once, and what was counted of them."""

    runs: list[Run]
    counts: list[Counters]
    """Of each request, in order; of all of them together where the engine says no more."""
    page: Counters | None
    """How far the engine's own counters grew meanwhile, where it publishes them."""
    foreign: str = ""
    """What shows that `page` counts the traffic of others too."""

    @property
    def drafted(self) -> int:
        """Tokens drafted."""
        return sum(count.drafted for count in self.counts)

    @property
    def accepted(self) -> int:
        """Of them accepted."""
        return sum(count.accepted for count in self.counts)


def measure(bench: Bench, *requests: Request, page: bool = False) -> Measured | Skip:
    """Run requests and count; a skip where nobody says what was drafted.

    With `page` the engine's own counters are read even where the steps can be seen.

    Raises:
        EngineError: the engine raised.
    """
    wanted = bench.has("counters") and (page or not bench.has("steps"))
    before = bench.engine.counters() if wanted else None
    runs = bench.run(*requests)
    grown = _grown(before, bench.engine.counters()) if before is not None else None
    foreign = _foreign(grown, runs) if grown is not None else ""
    if bench.has("steps"):
        return Measured(runs, [seen(run) for run in runs], grown, foreign)
    told = [run.generation.counted for run in runs if run.generation.counted is not None]
    if len(told) == len(runs):
        return Measured(runs, told, grown, foreign)
    if grown is not None and not foreign:
        return Measured(runs, [grown], grown)
    why = foreign or bench.lacks.get("counters", "there is no page of counters")
    return Skip("not-applicable", f"the answers don't say what was drafted, and {why}")


def seen(run: Run) -> Counters:
    """What the steps that were seen add up to."""
    steps = [step for step in run.generation.steps if step.drafted]
    longest = max((step.accepted for step in steps), default=0)
    return Counters(
        drafts=len(steps),
        drafted=sum(len(step.drafted) for step in steps),
        accepted=sum(step.accepted for step in steps),
        accepted_at=[sum(step.accepted > at for step in steps) for at in range(longest)],
        per_step=[step.accepted for step in steps],
    )


def total(counts: Sequence[Counters]) -> Counters:
    """The sums over several requests."""
    longest = max((len(count.accepted_at) for count in counts), default=0)
    return Counters(
        drafts=sum(count.drafts for count in counts),
        drafted=sum(count.drafted for count in counts),
        accepted=sum(count.accepted for count in counts),
        accepted_at=[sum(_at(count, position) for count in counts) for position in range(longest)],
    )


def _grown(before: Counters, after: Counters) -> Counters:
    return Counters(
        drafts=after.drafts - before.drafts,
        drafted=after.drafted - before.drafted,
        accepted=after.accepted - before.accepted,
        accepted_at=[
            later - earlier
            for earlier, later in itertools.zip_longest(
                before.accepted_at, after.accepted_at, fillvalue=0
            )
        ],
        requests=_less(after.requests, before.requests),
        tokens=_less(after.tokens, before.tokens),
    )


def _less(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before


def _foreign(page: Counters, runs: Sequence[Run]) -> str:
    ours = sum(len(run.generation.tokens) for run in runs)
    if page.requests not in (None, len(runs)) or page.tokens not in (None, ours):
        text = f"its page counted {page.requests} requests with {page.tokens} tokens meanwhile"
        return f"{text}, of which {len(runs)} with {ours} are ours: others are served too"
    return ""


def adds_up(counts: Counters, runs: Sequence[Run], drafts: int) -> list[Finding]:
    """Findings where counts contradict themselves, or the tokens of the requests they are of.

    A cut can only fall into a request's last step, so that no more is over than that step accepted.
    """
    at = counts.accepted_at
    if counts.accepted > counts.drafted:
        text = f"{counts.accepted} tokens accepted, {counts.drafted} drafted"
        return [Finding(Fault.COUNTERS_WRONG, text)]
    if any(later > earlier for earlier, later in itertools.pairwise(at)):
        return [Finding(Fault.COUNTERS_WRONG, f"accepted per position rises: {at}")]
    emitted = sum(len(run.generation.tokens) for run in runs)
    over = len(runs) + counts.accepted + counts.drafts - emitted
    steps = [drafts] * len(runs) if counts.per_step is None else counts.per_step
    most = sum(sorted(steps)[-len(runs) :])
    if not 0 <= over <= most:
        text = f"1 + sum(accepted + 1) is {over} over the {emitted} tokens emitted, 0..{most} is"
        return [Finding(Fault.COUNTERS_WRONG, f"{text} legal over {len(runs)} requests")]
    return []


def unequal(published: Counters, due: Counters) -> list[str]:
    """Where published counters are not what they should be, in words."""
    rows = [
        ("drafts", published.drafts, due.drafts),
        ("drafted", published.drafted, due.drafted),
        ("accepted", published.accepted, due.accepted),
        ("accepted per position", _reached(published), _reached(due)),
    ]
    if published.per_step is not None:
        rows.append(("accepted per step", published.per_step, due.per_step))
    return [f"{name} is {said}, {want} were seen" for name, said, want in rows if said != want]


def _reached(count: Counters) -> list[int]:
    """Accepted per position, up to the last at which any was: how many are published differs."""
    longest = max((at + 1 for at, accepted in enumerate(count.accepted_at) if accepted), default=0)
    return count.accepted_at[:longest]


def profile(counts: Sequence[Counters], drafts: int) -> list[float]:
    """The acceptance profile: for each draft position, accepted / drafts."""
    whole = total(counts)
    return [_at(whole, at) / whole.drafts for at in range(drafts)] if whole.drafts else []


def _at(count: Counters, position: int) -> int:
    return count.accepted_at[position] if position < len(count.accepted_at) else 0
