"""Who is tested: one module per engine, each run in a worker process of its own.

Engine packages and torch are imported only there; this package imports neither.
"""

from __future__ import annotations

from matrix.engines._endpoint import Endpoint
from matrix.engines._environment import ENVIRONMENT
from matrix.engines._messages import (
    Array,
    Counters,
    Forward,
    Generation,
    Hook,
    Identity,
    Inject,
    LogitRows,
    Probed,
    Request,
    Sampling,
    Started,
    StartSpec,
    Step,
)
from matrix.engines._process import LOG_CEILING, MEMORY_CEILING_MB, Worker
from matrix.engines._protocol import CAPABILITIES, Engine
from matrix.engines._remote import Deadlines, RemoteEngine

__all__ = [
    "CAPABILITIES",
    "ENVIRONMENT",
    "LOG_CEILING",
    "MEMORY_CEILING_MB",
    "Array",
    "Counters",
    "Deadlines",
    "Endpoint",
    "Engine",
    "Forward",
    "Generation",
    "Hook",
    "Identity",
    "Inject",
    "LogitRows",
    "Probed",
    "RemoteEngine",
    "Request",
    "Sampling",
    "StartSpec",
    "Started",
    "Step",
    "Worker",
]
