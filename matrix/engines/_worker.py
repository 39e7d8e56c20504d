"""The worker's main function: one engine (or the reference), served over two pipes.

The only module that brings an engine package near: it is imported in the worker process alone.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import runpy
import signal
import sys
from typing import Final

from matrix.engines._rpc import serve

__all__ = ["SERVED", "main"]

SERVED: Final = {
    "transformers": "matrix.engines.transformers:TransformersEngine",
    "vllm": "matrix.engines.vllm:VllmEngine",
    "vllm-classes": "matrix.engines._vllm_classes:uninstalled",
    "sglang": "matrix.engines.sglang:SglangEngine",
    "sglang-classes": "matrix.engines._sglang_classes:uninstalled",
    "server": "matrix.engines.server:ServerEngine",
    "reference": "matrix.reference._serve:ReferenceServer",
}
"""What a worker can serve, by name: `module:class`, or a function that makes it.

`E-classes` serves `--engine-path`: the classes of an engine that isn't installed.
"""

BEFORE: Final = dict.fromkeys(("sglang", "sglang-classes"), "matrix.engines._standins._place")
"""What must be in place before the engine is imported, by an injected file or by its adapter."""


def main(argv: list[str]) -> None:
    """Serve `argv[0]`; calls come in on file descriptor `argv[1]`, replies go out on `argv[2]`.

    `argv[3]`, when given, is a file that is run first, before the engine is imported or built.
    """
    name, calls, replies, *inject = argv
    faulthandler.enable()
    # On a deadline the driver asks for every thread's stack before it kills.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for fd in (int(calls), int(replies)):
        os.set_inheritable(fd, False)
    if folder := os.environ.get("MATRIX_ENGINE_PATH"):
        sys.path.insert(0, folder)
    if name in BEFORE:
        with contextlib.suppress(ImportError):  # the adapter asks for it again, and says so
            importlib.import_module(BEFORE[name])
    if inject:
        runpy.run_path(inject[0], run_name="__inject__")
    module, _, cls = SERVED[name].partition(":")
    try:
        target = getattr(importlib.import_module(module), cls)()
    except ImportError as error:
        target = error
    serve(target, int(calls), int(replies))
    sys.stdout.flush()
    sys.stderr.flush()
    # The engine's own exit handlers may hang; nothing here is worth waiting for.
    os._exit(0)
