from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from matrix.engines._messages import Array
from matrix.reference import StateArrays, States
from matrix.reference._store import Store

if TYPE_CHECKING:
    from pathlib import Path


def _array(*shape: int, dtype: str = "float32") -> Array:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return Array(dtype, shape, values.tobytes())


def _states(tokens: list[int], size: int = 1) -> StateArrays:
    rows = len(tokens)
    return StateArrays(
        tokens=tokens,
        layers=_array(3, rows, 4 * size),
        logits=_array(rows, 7),
        embedding=_array(rows, 4 * size),
        normed=_array(rows, 4 * size),
        mlp=_array(3, rows, 4 * size, dtype="bfloat16"),
    )


def test_states_are_read_only_views_in_the_arrays_shape() -> None:
    states = States.from_arrays(_states([5, 6]))
    assert (states.tokens, states.depth, states.width) == ((5, 6), 3, 4)
    assert states.layers.shape == (3, 2, 4)
    assert states.layers[2, 1, 3] == 23.0
    assert states.mlp is not None
    assert states.mlp.dtype == np.float32
    assert (states.attention, states.final_normed, states.next_normed) == (None, None, None)
    with pytest.raises(ValueError, match="read-only"):
        states.layers[0, 0, 0] = 1.0


def test_what_was_put_comes_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "reference")
    assert store.get("key") is None
    store.put("key", _states([5, 6]))
    assert Store(tmp_path / "reference").get("key") == _states([5, 6])
    assert store.get("other") is None


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign"])
def test_a_damaged_file_is_no_answer(damage: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("key", _states([5, 6]))
    path = tmp_path / "key.msgpack"
    whole = path.read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    path.write_bytes(
        {"cut": whole[:-9], "flipped": flipped, "empty": b"", "foreign": b"{}" * 60}[damage]
    )
    assert store.get("key") is None
    store.put("key", _states([5, 6]))
    assert store.get("key") == _states([5, 6])


def test_the_oldest_go_when_there_is_no_room(tmp_path: Path) -> None:
    probe = Store(tmp_path / "probe")
    probe.put("x", _states([1], 100))
    size = next((tmp_path / "probe").iterdir()).stat().st_size
    store = Store(tmp_path / "kept", limit=4 * size)
    for age, key in enumerate("abcd"):
        store.put(key, _states([1], 100))
        os.utime(tmp_path / "kept" / f"{key}.msgpack", (1000 + age, 1000 + age))
    assert all(store.get(key) for key in "abcd")
    store.put("e", _states([1], 100))
    assert [key for key in "abcde" if store.get(key)] == ["c", "d", "e"]


def test_a_disk_that_takes_nothing_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file" / "reference")
    store.put("key", _states([1]))
    assert store.get("key") is None
