"""What drills came to: caught, named, misnamed, false alarms, and what nothing turns red."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from matrix.faults import Fault
from matrix.results import Outcome, Score, Stray, plain
from matrix.selfcheck._drill import Drilled, red

__all__ = ["score", "score_text"]


def score(engine: str, drills: Sequence[Drilled], table: Mapping[str, Mapping[str, str]]) -> Score:
    """The score of one engine's drills.

    Args:
        engine: its name.
        drills: what was planted, with every cell it gave.
        table: planted file -> clause -> the label or outcome that it must give.
    """
    strays = [stray for one in drills for stray in _strays(one, table)]
    missed = [s for s in strays if s.actual is None]
    others = [s for s in strays if s.actual is not None and s.expected is not None]
    lost = {stray.fault for stray in missed}
    unnamed = {stray.fault for stray in others} | lost
    faults = [one.file for one in drills if not one.harmless]
    cells = [cell for one in drills for cell in one.cells]
    turned = {clause for one in drills if not one.harmless for clause in red(one.cells)}
    judged = dict.fromkeys(c.clause for c in cells if c.outcome is not Outcome.SKIP)
    return Score(
        engine=engine,
        engine_version=next((cell.engine_version for cell in cells), "unknown"),
        planted=faults,
        harmless=[one.file for one in drills if one.harmless],
        caught=[fault for fault in faults if fault not in lost],
        named=[fault for fault in faults if fault not in unnamed],
        missed=missed,
        misnamed=[stray for stray in others if stray.actual != Fault.UNKNOWN],
        false_alarms=[stray for stray in strays if stray.expected is None],
        never_red=[clause for clause in judged if clause not in turned],
    )


def _strays(one: Drilled, table: Mapping[str, Mapping[str, str]]) -> Iterator[Stray]:
    said = red(one.cells)
    wanted = {} if one.harmless else table[one.file]
    for clause in dict.fromkeys([*wanted, *said]):
        expected, actual = wanted.get(clause), said.get(clause)
        if expected != actual:
            yield Stray(one.file, clause, expected, actual)


def score_text(score: Score) -> str:
    """The score for people, in lines."""
    planted = len(score.planted)
    lines = [
        f"{score.engine} {score.engine_version}: {planted} faults planted, "
        f"{len(score.harmless)} harmless changes made",
        f"  caught        {len(score.caught)} of {planted}",
        f"  named         {len(score.named)} of {planted}",
        f"  missed        {len(score.missed)}",
        f"  misnamed      {len(score.misnamed)}",
        f"  false alarms  {len(score.false_alarms)}",
        f"  never red     {', '.join(score.never_red) or 'no clause that was judged'}",
    ]
    for word, strays in (
        ("missed", score.missed),
        ("misnamed", score.misnamed),
        ("false alarm", score.false_alarms),
    ):
        lines += [
            f"{word}: {s.fault}: {s.clause}: expected {s.expected or 'green'}, "
            f"actual {s.actual or 'green'}"
            for s in strays
        ]
    return plain("\n".join(lines))
