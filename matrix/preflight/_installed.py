"""Asks engines that are installed for their own readings, each in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from matrix.preflight._resolvers import MOST_LAYERS, Reading
from matrix.preflight._subject import Subject, number

__all__ = ["installed", "with_installed"]

_PACKAGES: Final = {"vllm": "vllm", "sglang": "sglang", "transformers": "dflash"}
_PATIENCE: Final = 120.0
"""Seconds for one engine to import itself and answer."""
_SCRIPT: Final = Path(__file__).with_name("_ask.py")
# Nothing is fetched, and a busy machine gets no more threads than the question needs.
_QUIET: Final = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}


def installed() -> dict[str, str]:
    """Engines that this interpreter has -> this interpreter."""
    return {
        engine: sys.executable
        for engine, package in _PACKAGES.items()
        if importlib.util.find_spec(package) is not None
    }


def with_installed(pair: Subject, python: Mapping[str, str]) -> Subject:
    """The same pair, with readings by the engines' own functions where they answer.

    Args:
        pair: readings of engines that aren't in `python`, or don't answer, stay our model's.
        python: engine -> interpreter that has it.
    """
    asked = [engine for engine in pair.engines if engine in python]
    layers = number(pair.body("num_hidden_layers")) or 0
    if not asked or pair.facts.depth is None or layers > MOST_LAYERS:
        return pair
    question = json.dumps(
        {
            "config": pair.draft.config,
            "method": pair.said.method,
            "depth": pair.facts.depth,
            "target_model_type": pair.facts.model_type,
        }
    )
    with ThreadPoolExecutor(len(asked)) as pool:
        answers = pool.map(lambda engine: _ask(engine, python[engine], question), asked)
        told = dict(zip(asked, answers, strict=True))
    return replace(pair, readings=tuple(_told(reading, told) for reading in pair.readings))


def _told(reading: Reading, told: Mapping[str, Mapping[str, Any]]) -> Reading:
    answer = told.get(reading.engine, {}).get(reading.resolver)
    if not isinstance(answer, Mapping):
        return reading
    ids = answer["ids"]
    return replace(
        reading,
        by="installed",
        how=answer["how"],
        ids=None if ids is None else tuple(ids),
        note=answer.get("note", ""),
    )


def _ask(engine: str, python: str, question: str) -> dict[str, Any]:
    """The engine's answers by resolver; empty when it has none, for whatever reason."""
    command = [python, str(_SCRIPT), engine]
    env = {**_without_secrets(os.environ), **_QUIET}
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=null, env=env, start_new_session=True
    ) as process:
        try:
            out, _ = process.communicate(question.encode(), timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return {}
    try:
        answer = json.loads(out.decode(errors="replace").strip().rpartition("\n")[2])
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _without_secrets(env: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in env.items() if not key.endswith(("_TOKEN", "_KEY"))}
