"""The scan against the running engine: `python -m matrix.scan._accuracy --engine E --python PATH`.

The other interpreter, which has the engine installed, imports every architecture and says whether
its class has each hook, in the engine's own way of asking. The scan reads the same installation
without importing it. No answer may differ, and few may be `unknown`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from matrix.errors import UsageError
from matrix.scan._scan import scan
from matrix.scan._source import ENGINES, open_source

__all__ = ["compare", "main"]

_VLLM: Final = """
import json, sys
from vllm.model_executor.models.interfaces import supports_eagle3
from vllm.model_executor.models.registry import ModelRegistry
answers = {}
for arch, entry in ModelRegistry.models.items():
    try:
        offered = bool(supports_eagle3(entry.load_model_cls()))
    except BaseException as error:
        answers[arch] = f"{type(error).__name__}: {error}"
    else:
        answers[arch] = dict.fromkeys(("dflash", "dspark", "eagle3"), offered)
"""

_SGLANG: Final = """
import json, sys
from sglang.srt.models.registry import ModelRegistry
answers = {}
for arch in sorted(ModelRegistry.get_supported_archs()):
    cls = ModelRegistry.models[arch]
    answers[arch] = {
        name: hasattr(cls, f"set_{name}_layers_to_capture")
        for name in ("dflash", "dspark", "eagle3")
    }
"""

_SAY: Final = """
import sysconfig
json.dump({"root": sysconfig.get_path("purelib"), "answers": answers}, open(sys.argv[1], "w"))
"""

_QUIET: Final = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "OMP_NUM_THREADS": "1",
    "SGLANG_USE_CPU_ENGINE": "0",
}


def ask(engine: str, python: Path, answers: Path) -> tuple[Path, dict[str, dict[str, bool] | str]]:
    """What the running engine answers.

    Returns:
        The folder that holds its packages, and per architecture the answer per algorithm, or why
        it can't be imported.

    Raises:
        UsageError: the interpreter isn't there, or the engine doesn't import in it.
    """
    program = (_VLLM if engine == "vllm" else _SGLANG) + _SAY
    try:
        done = subprocess.run(
            [str(python), "-c", program, str(answers)],
            env={**_QUIET, **os.environ},
            capture_output=True,
            text=True,
        )
    except OSError as error:
        raise UsageError(f"--python {python}: {error.strerror}") from None
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise UsageError(f"--python {python}: {engine} doesn't answer ({last})")
    said = json.loads(answers.read_text(encoding="utf-8"))
    return Path(said["root"]), said["answers"]


def compare(engine: str, python: Path, answers: Path) -> dict[str, object]:
    """Both sides, and where they differ."""
    root, running = ask(engine, python, answers)
    with open_source(root, engine) as source:
        result = scan(source)
    read = {arch.arch: arch for arch in result.architectures}
    imported = {arch: said for arch, said in running.items() if isinstance(said, dict)}
    words = {True: "offered", False: "missing"}
    differ, unknown = [], []
    for name, said in imported.items():
        for algorithm, offered in said.items():
            answer = read[name].hook[algorithm] if name in read else "not found"
            if answer == "unknown":
                unknown.append(f"{name} {algorithm}: {read[name].unknown[0]}")
            elif answer != words[offered]:
                differ.append(f"{name} {algorithm}: read {answer}, running {words[offered]}")
    share = len({line.partition(" ")[0] for line in unknown}) / max(len(imported), 1)
    return {
        "engine": engine,
        "version": result.version,
        "registered": len(running),
        "imported": len(imported),
        "read": len(read),
        "offered": sum(any(said.values()) for said in imported.values()),
        "differ": differ,
        "unknown": unknown,
        "unknown_share": round(share, 4),
        "not_imported": {arch: said for arch, said in running.items() if isinstance(said, str)},
    }


def main(argv: list[str] | None = None) -> int:
    """Prints the comparison as JSON; 1 when an answer differs or more than 2 % are unknown."""
    parser = argparse.ArgumentParser(prog="python -m matrix.scan._accuracy", description=__doc__)
    parser.add_argument("--engine", choices=sorted(ENGINES), required=True)
    parser.add_argument("--python", type=Path, required=True, help="its interpreter")
    parser.add_argument("--out", type=Path, default=Path("answers.json"), help="the running side")
    args = parser.parse_args(argv)
    try:
        report = compare(args.engine, args.python, args.out.resolve())
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(report, indent=2))
    share = report["unknown_share"]
    assert isinstance(share, float)
    return 1 if report["differ"] or share > 0.02 or not report["imported"] else 0


if __name__ == "__main__":
    sys.exit(main())
