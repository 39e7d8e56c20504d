"""Who is tested: one module per engine, each run in a worker process of its own.

Engine packages and torch are imported only there; this package imports neither.
"""

from __future__ import annotations

from matrix.engines._messages import (
    Array,
    Forward,
    Generation,
    Hook,
    Identity,
    Inject,
    LogitRows,
    Request,
    Started,
    StartSpec,
    Step,
)
from matrix.engines._process import LOG_CEILING, MEMORY_CEILING_MB, Worker
from matrix.engines._protocol import CAPABILITIES, Engine
from matrix.engines._remote import Deadlines, RemoteEngine

__all__ = [
    "CAPABILITIES",
    "LOG_CEILING",
    "MEMORY_CEILING_MB",
    "Array",
    "Deadlines",
    "Engine",
    "Forward",
    "Generation",
    "Hook",
    "Identity",
    "Inject",
    "LogitRows",
    "RemoteEngine",
    "Request",
    "StartSpec",
    "Started",
    "Step",
    "Worker",
]
