"""Every message comes back as it went, through the frames and codecs that carry it."""

from __future__ import annotations

import os
import threading
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matrix.engines import _messages
from matrix.engines._messages import Array, Failed, Raised, Reply
from matrix.engines._rpc import HEADER, decode_reply, encode_call, frame, raised, serve
from matrix.errors import EngineError, PlatformRefused

quick = settings(max_examples=40, deadline=None, derandomize=True, database=None)
# msgpack has 64 bits for an integer; token ids and positions need fewer.
NUMBERS = st.integers(-(2**63), 2**64 - 1)
DATA = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
st.register_type_strategy(msgspec.Raw, DATA.map(lambda d: msgspec.Raw(msgspec.msgpack.encode(d))))
TYPES = [
    kind
    for name in _messages.__all__
    if issubclass(kind := getattr(_messages, name), msgspec.Struct)
]


def messages(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a message type, from its own annotations."""
    hints = msgspec.structs.fields(kind)
    return st.builds(kind, **{field.name: values(field.type) for field in hints})


def values(hint: Any) -> st.SearchStrategy[Any]:
    info: tuple[Any, ...] = getattr(hint, "__args__", ())
    origin = getattr(hint, "__origin__", None)
    if hint is Any:
        return DATA
    if hint is int:
        return NUMBERS
    if hint is float:
        return st.floats(allow_nan=False)  # it isn't equal to itself
    if origin is list:
        return st.lists(values(info[0]), max_size=3)
    if origin is tuple:
        return st.lists(values(info[0]), max_size=3).map(tuple)
    if origin is dict:
        keys = st.text(max_size=5) if info[0] is str else values(info[0])
        return st.dictionaries(keys, values(info[1]), max_size=3)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return messages(hint)
    if info:
        return st.one_of([values(each) for each in info])
    return st.from_type(hint)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_every_message_comes_back_as_it_went(kind: Any) -> None:
    @quick
    @given(messages(kind))
    def check(message: Any) -> None:
        data = msgspec.msgpack.encode(message)
        back = msgspec.msgpack.decode(data, type=kind)
        assert back == message
        assert msgspec.msgpack.encode(back) == data

    check()


def test_every_message_is_checked() -> None:
    assert {kind.__name__ for kind in TYPES} == set(_messages.__all__)


@quick
@given(
    st.one_of(
        messages(Raised),
        messages(Failed),
        DATA.map(lambda d: Reply(msgspec.Raw(msgspec.msgpack.encode(d)))),
    )
)
def test_the_three_kinds_of_reply_are_told_apart(reply: Any) -> None:
    back = decode_reply(msgspec.msgpack.encode(reply))
    assert type(back) is type(reply)
    assert back == reply


@quick
@given(st.binary(max_size=300))
def test_a_frame_says_its_length(payload: bytes) -> None:
    framed = frame(payload)
    assert int.from_bytes(framed[:HEADER], "big") == len(payload)
    assert framed[HEADER:] == payload


@pytest.mark.parametrize(
    ("dtype", "kind"), [("float32", np.float32), ("bfloat16", np.float32), ("float64", np.float64)]
)
@quick
@given(st.lists(st.integers(0, 4), min_size=1, max_size=3), st.integers(0, 99))
def test_an_array_is_its_bytes(dtype: str, kind: Any, shape: list[int], seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=shape).astype(kind)
    back = Array(dtype, tuple(shape), values.tobytes()).numpy()
    assert back.dtype == kind
    assert back.shape == tuple(shape)
    assert np.array_equal(back, values)
    assert not back.flags.writeable


# --- serving, in one process ------------------------------------------------------------------


class Served:
    """Methods with every kind of annotation."""

    def add(self, one: int, other: int) -> int:
        return one + other

    def any_json(self, ids: Any) -> Any:
        return ids

    def refuses(self) -> None:
        raise PlatformRefused("RuntimeError", "CPU only")


def answers(target: object, *calls: bytes) -> list[Any]:
    """What `serve` replies to some framed calls; the driver's end closes after the last."""
    call_end, calls_fd = os.pipe()
    replies_end, replies_fd = os.pipe()
    os.write(calls_fd, b"".join(calls))
    os.close(calls_fd)
    server = threading.Thread(target=serve, args=(target, call_end, replies_fd))
    server.start()
    server.join(timeout=10)
    assert not server.is_alive(), "it ends when the driver's end closes"
    os.close(replies_fd)
    with os.fdopen(replies_end, "rb") as stream:
        data = stream.read()
    os.close(call_end)
    found = []
    while data:
        size = int.from_bytes(data[:HEADER], "big")
        found.append(decode_reply(data[HEADER : HEADER + size]))
        data = data[HEADER + size :]
    return found


def test_calls_are_answered_in_order() -> None:
    first, second = answers(Served(), encode_call("add", (1, 2)), encode_call("add", (3, 4)))
    assert [msgspec.msgpack.decode(reply.value) for reply in (first, second)] == [3, 7]


@quick
@given(DATA)
def test_layer_ids_may_be_any_json(ids: Any) -> None:
    (reply,) = answers(Served(), encode_call("any_json", (ids,)))
    assert msgspec.msgpack.decode(reply.value) == ids


def test_a_call_that_is_cut_off_is_not_made() -> None:
    whole = encode_call("add", (1, 2))
    assert answers(Served(), whole[:-1]) == []
    assert answers(Served(), whole[:3]) == []
    assert len(answers(Served(), whole, whole[:-1])) == 1


def test_an_import_error_answers_every_call() -> None:
    error = ImportError("No module named 'torch'")
    for reply in answers(error, encode_call("add", (1, 2)), encode_call("identify", ())):
        assert (reply.type_name, reply.text) == ("MissingDependency", "No module named 'torch'")


def test_arguments_of_another_type_are_refused_not_converted() -> None:
    (reply,) = answers(Served(), encode_call("add", ("1", 2)))
    assert isinstance(reply, Failed)
    assert reply.type_name == "AdapterError"


def test_a_platform_refusal_keeps_its_mark() -> None:
    (reply,) = answers(Served(), encode_call("refuses", ()))
    assert isinstance(reply, Raised)
    assert reply.platform
    assert (reply.type_name, reply.text) == ("RuntimeError", "CPU only")


def test_an_engine_error_keeps_the_engines_own_type() -> None:
    try:
        raise EngineError("ValueError", "layer ids")
    except EngineError as error:
        said = raised(error)
    assert isinstance(said, Raised)
    assert (said.type_name, said.text) == ("ValueError", "layer ids")
