"""Every clause on one pair, and the result in the two forms that it is shown in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matrix.preflight._subject import Subject, edition
from matrix.preflight._verdict import CLAUSES, Judgement, cut

__all__ = ["Result", "judge"]


@dataclass(frozen=True)
class Result:
    """One pair, judged."""

    pair: Subject
    judgements: tuple[Judgement, ...]

    @property
    def failed(self) -> bool:
        """Whether a clause failed; warnings are none."""
        return any(judgement.outcome == "fail" for judgement in self.judgements)

    def as_json(self) -> dict[str, Any]:
        """The result for programs; `ids.value` is in output semantics whatever the file stores."""
        pair, claim = self.pair, self.pair.id_claim
        return {
            "target": pair.target.name,
            "draft": pair.draft.name,
            "layout": pair.said.layout,
            "method": pair.said.method,
            "edition": edition(pair.config),
            "ids": {
                "value": None if pair.ids is None else list(pair.ids),
                "key": claim.key if claim else None,
                "semantics": claim.semantics if claim else None,
            },
            "clauses": [
                {
                    "clause": judgement.clause,
                    "outcome": judgement.outcome,
                    "fault": judgement.fault,
                    "expected": judgement.expected,
                    "actual": judgement.actual,
                    "message": judgement.message,
                }
                for judgement in self.judgements
            ],
            "engines": {engine: _engine(pair, engine) for engine in pair.engines},
        }

    def as_text(self) -> str:
        """The result for people."""
        pair, claim = self.pair, self.pair.id_claim
        lines = [
            f"target  {pair.target.name}  {pair.facts.arch or 'no architecture'}, "
            f"{pair.facts.depth or '?'} layers of {pair.facts.hidden_size or '?'}",
            f"draft   {pair.draft.name}  {pair.said.method}, layout {pair.said.layout}, "
            f"edition {edition(pair.config)}",
        ]
        if claim:
            meaning = "outputs" if claim.semantics == "output" else "boundaries, id + 1"
            lines.append(f"ids     {_list(claim.outputs)}, from {claim.key} ({meaning})")
        else:
            lines.append("ids     none that can be read")
        lines.append("")
        lines += [
            f"{judgement.outcome:<5} {judgement.clause:<16} {judgement.message}"
            for judgement in self.judgements
        ]
        lines.append("")
        if self.failed:
            lines.append("By classes and resolvers alone, were it not for the failed clauses:")
        for engine in pair.engines:
            lines += _engine_lines(pair, engine)
        counts = {
            word: sum(judgement.outcome == word for judgement in self.judgements)
            for word in ("pass", "fail", "warn", "skip")
        }
        lines += ["", ", ".join(f"{count} {word}" for word, count in counts.items())]
        return "\n".join(_printable(line) for line in lines)


def judge(pair: Subject) -> Result:
    """Judge every clause on a pair."""
    return Result(pair, tuple(clause.judge(pair) for clause in CLAUSES.values()))


def _engine(pair: Subject, engine: str) -> dict[str, Any]:
    found = pair.releases.get(engine, ())
    able = [start.version for start in found if start.verdict == "starts"]
    return {
        "draft_class": pair.classes[engine].name,
        "starts": able,
        "first": able[0] if able else None,
        "releases": [
            {"version": start.version, "verdict": start.verdict, "why": start.why}
            for start in found
        ],
        "resolvers": [
            {
                "resolver": reading.resolver,
                "by": reading.by,
                "how": reading.how,
                "ids": None if reading.ids is None else list(reading.ids),
                "note": reading.note,
            }
            for reading in pair.readings
            if reading.engine == engine
        ],
    }


def _engine_lines(pair: Subject, engine: str) -> list[str]:
    found = pair.releases.get(engine, ())
    able = [start.version for start in found if start.verdict == "starts"]
    lines = []
    if able and found[-1].verdict == "starts":
        lines.append(f"{engine:<13} starts since {able[0]} (newest scanned: {found[-1].version})")
    elif able:
        newest = f"{found[-1].version} {found[-1].verdict}: {found[-1].why}"
        lines.append(f"{engine:<13} starts on {able[0]} to {able[-1]}, but {newest}")
    elif found:
        lines.append(f"{engine:<13} {found[-1].verdict} on {found[-1].version}: {found[-1].why}")
    else:
        lines.append(f"{engine:<13} the authors' code; no releases to tell apart")
    for reading in pair.readings:
        if reading.engine == engine:
            taken = reading.note if reading.ids is None else _list(reading.ids)
            lines.append(f"  {reading.resolver} ({reading.by}): {reading.how} {taken}")
    return lines


def _list(ids: tuple[int, ...] | None) -> str:
    return cut(",".join(map(str, ids or ())))


def _printable(line: str) -> str:
    """A line that no terminal obeys, whatever a config or a name holds."""
    shown = cut(line, 1200)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
