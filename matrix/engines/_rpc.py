"""Calls over a pipe: an 8-byte length, then msgpack. Never pickle.

A call names a method; its arguments and its result are decoded by the method's own type hints, so
the class that is served is the only schema.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from matrix.engines._messages import Call, Failed, Gone, Raised, Reply
from matrix.errors import EngineError, HarnessError, PlatformRefused, WorkerGone

__all__ = ["HEADER", "decode_reply", "encode_call", "engine_raised", "frame", "raised", "serve"]

HEADER = 8
"""Bytes of a frame's length prefix, big-endian."""

_OURS = str(Path(__file__).parent)
_encode = msgspec.msgpack.encode
_decode_call = msgspec.msgpack.Decoder(Call).decode
decode_reply = msgspec.msgpack.Decoder(Reply | Raised | Gone | Failed).decode


def frame(payload: bytes) -> bytes:
    """The payload behind its length."""
    return len(payload).to_bytes(HEADER, "big") + payload


def encode_call(method: str, args: tuple[Any, ...]) -> bytes:
    """One framed call."""
    return frame(_encode(Call(method, [msgspec.Raw(_encode(arg)) for arg in args])))


def _read(fd: int, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(fd, min(size - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


@cache
def _argument_types(function: Callable[..., Any]) -> tuple[Any, ...]:
    hints = get_type_hints(function)
    hints.pop("return", None)
    return tuple(hints.values())


def _answer(target: object, call: Call) -> Reply | Raised | Gone | Failed:
    if isinstance(target, ImportError):
        return Failed("MissingDependency", str(target), "")
    try:
        method = getattr(target, call.method)
        types = _argument_types(method.__func__)
        args = [
            msgspec.msgpack.decode(raw, type=kind)
            for raw, kind in zip(call.args, types, strict=True)
        ]
        return Reply(msgspec.Raw(_encode(method(*args))))
    except HarnessError as error:
        return Failed(type(error).__name__, str(error), traceback.format_exc())
    except WorkerGone as error:
        return Gone(error.outcome, error.how)
    except Exception as error:
        return raised(error)


def raised(error: Exception) -> Raised | Failed:
    """What an exception out of an adapter says: the engine's own word, or a fault of ours.

    It is ours when one of our own lines raised it, not the engine that they called: a private name
    that is gone shows so.
    """
    trace = traceback.format_exc()
    print(trace, file=sys.stderr, flush=True)  # the worker's log is where a reader looks first
    if isinstance(error, EngineError):
        platform = isinstance(error, PlatformRefused)
        return Raised(error.type_name, error.text, error.trace or trace, platform)
    if traceback.extract_tb(error.__traceback__)[-1].filename.startswith(_OURS):
        return Failed("AdapterError", f"adapter: {type(error).__name__}: {error}", trace)
    return Raised(type(error).__name__, str(error), trace)


def engine_raised(error: Exception) -> Raised:
    """What the engine raised under an adapter, for a generation that keeps what was seen before.

    Raises:
        Exception: `error` itself, when one of our own lines raised it.
    """
    said = raised(error)
    if isinstance(said, Failed):
        raise error
    return said


def serve(target: object, calls: int, replies: int) -> None:
    """Answer calls from the file descriptor `calls` on `replies`, until the driver's end closes.

    An `ImportError` in the target's place answers every call with `MissingDependency`.
    """
    while (head := _read(calls, HEADER)) is not None:
        payload = _read(calls, int.from_bytes(head, "big"))
        if payload is None:
            return
        _write(replies, frame(_encode(_answer(target, _decode_call(payload)))))
