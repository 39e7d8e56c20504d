"""Scans every release and keeps the results: `python -m matrix.scan._table`.

Wheels come one at a time and are deleted after their scan; a release that the table has is not
fetched again. `support` answers from what this writes.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
from packaging.version import Version

from matrix.errors import HarnessError, SourceError
from matrix.scan._scan import scan
from matrix.scan._source import ENGINES, release
from matrix.scan._support import folder, load_table, release_of

__all__ = ["main", "update"]

FROM: Final = {"vllm": "0.20.0", "sglang": "0.5.10"}
"""Engine -> the first release that is scanned."""


def versions(engine: str) -> list[str]:
    """The final releases on the package index from the first one that counts, oldest first.

    Raises:
        HarnessError: pip doesn't list them.
    """
    command = [sys.executable, "-m", "pip", "index", "versions", engine]
    done = subprocess.run(command, capture_output=True, text=True)
    match = re.search(r"^Available versions: (.*)$", done.stdout, re.M)
    if match is None:
        raise HarnessError(f"pip lists no versions of {engine}; try: pip index versions {engine}")
    found = [Version(text) for text in match[1].split(", ")]
    first = Version(FROM[engine])
    return [str(v) for v in sorted(found) if v >= first and not v.is_prerelease]


def update(engine: str, where: Path, *, again: bool = False) -> int:
    """Scans what the table lacks and writes it after each release; how many were added.

    Args:
        engine: which engine.
        where: the folder of the tables.
        again: scan the releases that the table already has, too.
    """
    table = load_table(engine, where)
    if again:
        table.releases, table.faults = [], []
    known = {row.version for row in table.releases}
    added = 0
    for version in versions(engine):
        if version in known:
            continue
        try:
            with release(f"{engine}=={version}") as source:
                result = scan(source, cache=False)
        except SourceError as error:
            print(error, file=sys.stderr)
            continue
        result.version = version
        table.releases.append(release_of(table, result))
        table.releases.sort(key=lambda row: Version(row.version))
        (where / f"{engine}.json").write_bytes(msgspec.json.encode(table) + b"\n")
        print(f"{engine} {version}: {len(result.architectures)} architectures", flush=True)
        added += 1
    return added


def main(argv: list[str] | None = None) -> int:
    """Updates the tables of all engines."""
    parser = argparse.ArgumentParser(prog="python -m matrix.scan._table", description=__doc__)
    parser.add_argument("--engine", choices=sorted(ENGINES), action="append")
    parser.add_argument("--out", type=Path, default=folder(), help="the folder of the tables")
    parser.add_argument("--again", action="store_true", help="scan known releases again")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    for engine in args.engine or sorted(ENGINES):
        update(engine, args.out, again=args.again)
    return 0


if __name__ == "__main__":
    sys.exit(main())
