"""The one tree of errors.

    MatrixError
    +-- UsageError            bad input or usage; one line; exit code 2
    |   +-- RegistryError     a row or expectation that is not well formed (file, row, field)
    |   +-- LayoutError       a draft config whose layout is unknown or contradictory
    |   +-- ConfigError       a checkpoint's file that can't be had, or can't be read within bounds
    |   +-- JournalError      a journal that can't be read or written
    |   +-- SourceError       a scan source that can't be read as an engine
    +-- HarnessError          the harness itself failed; a cell with outcome `error`
    |   +-- AdapterError      a private name that an adapter relies on is gone
    |   +-- MissingDependency a package is not installed; a cell with outcome `skip`
    |   +-- TwinError         a twin that can't be built, or can't tell its layers apart
    |   +-- ReferenceFailed   the reference process failed or ended
    +-- EngineError           the engine raised: a result, not a failure of ours
    |   +-- PlatformRefused   the engine refuses the method on this whole platform (`needs-gpu`)
    +-- WorkerGone            the worker process ended, hung or outgrew its memory; or the server did

Everything the project raises on purpose is one of these.
"""

from __future__ import annotations

__all__ = [
    "AdapterError",
    "ConfigError",
    "EngineError",
    "HarnessError",
    "JournalError",
    "LayoutError",
    "MatrixError",
    "MissingDependency",
    "PlatformRefused",
    "ReferenceFailed",
    "RegistryError",
    "SourceError",
    "TwinError",
    "UsageError",
    "WorkerGone",
]


class MatrixError(Exception):
    """Base of every error that this project raises on purpose."""


class UsageError(MatrixError):
    """Bad input or usage. The message is one line: what was wrong, where, what would be right."""


class RegistryError(UsageError):
    """A row or an expectation that is not well formed.

    Args:
        file: where it stands.
        row: key of the row, or its position when it has no key.
        field: the field at fault, or `None` when the row as a whole is.
        problem: what is wrong, and what would be right.
    """

    def __init__(self, file: str, row: str, field: str | None, problem: str) -> None:
        where = f"{file}: {row}" + (f": {field}" if field else "")
        super().__init__(f"{where}: {problem}")
        self.file, self.row, self.field, self.problem = file, row, field, problem


class LayoutError(UsageError):
    """A draft config whose layout is unknown or contradictory; the message lists its keys."""


class ConfigError(UsageError):
    """A checkpoint's file that can't be had, or can't be read within bounds."""


class JournalError(UsageError):
    """A journal that can't be read or written."""


class SourceError(UsageError):
    """A scan source that can't be read as an engine."""


class HarnessError(MatrixError):
    """The harness itself failed: the cell's outcome is `error`."""


class AdapterError(HarnessError):
    """A private name that an adapter relies on is gone; the message starts with `adapter:`."""


class MissingDependency(HarnessError):  # noqa: N818 - read as `skip: missing-dependency`
    """A package that is needed is not installed there, or doesn't know the architecture."""


class TwinError(HarnessError):
    """A twin that can't be built, or whose layers are too close to tell apart."""


class ReferenceFailed(HarnessError):  # noqa: N818 - says what happened
    """The reference process failed or ended."""


class EngineError(MatrixError):
    """The engine raised while it was asked for something.

    Args:
        type_name: the exception's type as the engine raised it (`ValueError`).
        text: the exception's own message.
        trace: the formatted traceback.
    """

    def __init__(self, type_name: str, text: str, trace: str = "") -> None:
        super().__init__(f"{type_name}: {text}" if text else type_name)
        self.type_name, self.text, self.trace = type_name, text, trace


class PlatformRefused(EngineError):  # noqa: N818 - says what happened, like WorkerGone
    """The engine refuses the method on this whole platform: `skip: needs-gpu`."""


class WorkerGone(MatrixError):  # noqa: N818 - says what happened
    """The worker process ended, hung or outgrew its memory, or the server that it speaks to did.

    Args:
        outcome: `crash`, `timeout` or `oom`.
        how: a sentence, e.g. "killed by SIGKILL" or "exit status 3".
    """

    def __init__(self, outcome: str, how: str) -> None:
        super().__init__(how)
        self.outcome, self.how = outcome, how
