"""`python -m benchmarks [SUBJECT ...] [--json FILE]`: every subject, or those named."""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import platform
import sys
from dataclasses import asdict
from pathlib import Path

import benchmarks
from benchmarks._figure import ROUNDS, Figure


def main() -> int:
    """Measure, print the table and write the JSON; 1 when a ratio misses its target."""
    subjects = [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name[0] != "_"]
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=", ".join(subjects))
    parser.add_argument("--json", type=Path, default=Path("reports/bench.json"), metavar="FILE")
    args = parser.parse_args()
    if unknown := set(args.subjects) - set(subjects):
        parser.error(f"no subject {', '.join(sorted(unknown))}; there are {', '.join(subjects)}")
    figures: list[Figure] = []
    for name in args.subjects or subjects:
        print(f"measuring {name}", file=sys.stderr)
        figures += importlib.import_module(f"benchmarks.{name}").figures()
    print(table(figures))
    write(figures, args.json)
    return int(any(figure.red for figure in figures))


def table(figures: list[Figure]) -> str:
    """One line a figure, its target beside it."""
    lines = [f"{'figure':<52} {'value':>10} {'target':>10}"]
    for f in figures:
        target = "-" if f.target is None else f"{f.target:g}"
        verdict = "" if f.met else "RED" if f.red else "over"
        lines.append(f"{f.name:<52} {f.value:>10.3f} {target:>10} {f.unit:<8} {verdict}".rstrip())
    return "\n".join(lines)


def write(figures: list[Figure], file: Path) -> None:
    """The same as JSON, with where it was measured."""
    out = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "rounds": ROUNDS,
        "figures": [{**asdict(figure), "met": figure.met} for figure in figures],
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
