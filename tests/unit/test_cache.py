from __future__ import annotations

from pathlib import Path

import pytest

from matrix import cache
from matrix.errors import UsageError


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DFLASH_MATRIX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _put(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def test_root_is_the_users_cache_folder_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DFLASH_MATRIX_CACHE", raising=False)
    assert "dflash-matrix" in cache.root().parts
    monkeypatch.setenv("DFLASH_MATRIX_CACHE", "/somewhere/else")
    assert cache.root() == Path("/somewhere/else")


def test_entries_of_a_missing_cache_are_none(root: Path) -> None:
    assert not root.exists()
    assert cache.entries() == []
    assert cache.clear() == 0


def test_entries_measure_files_and_folders(root: Path) -> None:
    _put(root / "twins" / "abc" / "target" / "model.safetensors", 700)
    _put(root / "twins" / "abc" / "twin.json", 30)
    _put(root / "reference" / "key.msgpack", 50)
    _put(root / "unrelated.txt", 9)
    found = {(entry.kind, entry.name, entry.bytes) for entry in cache.entries()}
    assert found == {("twins", "abc", 730), ("reference", "key.msgpack", 50)}


def test_clear_takes_one_kind_and_says_what_it_freed(root: Path) -> None:
    _put(root / "twins" / "abc" / "twin.json", 30)
    _put(root / "reference" / "key.msgpack", 50)
    assert cache.clear("reference") == 50
    assert [entry.kind for entry in cache.entries()] == ["twins"]
    assert cache.clear() == 30
    assert cache.entries() == []


def test_clear_refuses_an_unknown_kind(root: Path) -> None:
    _put(root / "twins" / "abc" / "twin.json", 30)
    with pytest.raises(UsageError, match=r"no kind 'twin'; kinds are twins, reference, examples"):
        cache.clear("twin")
    assert len(cache.entries()) == 1


def test_atomic_dir_appears_whole(tmp_path: Path) -> None:
    home = tmp_path / "twins" / "abc"
    with cache.atomic_dir(home) as folder:
        (folder / "one").write_text("1")
        assert not home.exists()
        (folder / "two").write_text("2")
    assert sorted(path.name for path in home.iterdir()) == ["one", "two"]
    assert list(home.parent.iterdir()) == [home]


def test_atomic_dir_leaves_nothing_when_the_writer_fails(tmp_path: Path) -> None:
    home = tmp_path / "twins" / "abc"

    def write() -> None:
        with cache.atomic_dir(home) as folder:
            (folder / "one").write_text("1")
            raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        write()
    assert list(home.parent.iterdir()) == []


def test_atomic_dir_keeps_the_first_of_two_writers(tmp_path: Path) -> None:
    home = tmp_path / "abc"
    with cache.atomic_dir(home) as slow:
        (slow / "who").write_text("slow")
        with cache.atomic_dir(home) as fast:
            (fast / "who").write_text("fast")
    assert (home / "who").read_text() == "fast"
    assert list(tmp_path.iterdir()) == [home]


def test_atomic_file_replaces_and_leaves_no_copy(tmp_path: Path) -> None:
    path = tmp_path / "reference" / "key"
    cache.atomic_file(path, b"old")
    cache.atomic_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]
