"""What the proofs of this folder share: a cache of their own, and the reference."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from matrix.reference import Reference


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of this process's own: drills clear the saved examples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DFLASH_MATRIX_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def reference(own_cache: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    """One reference for all drills of this process; nothing is ever planted in it."""
    found = Reference(tmp_path_factory.mktemp("reference") / "reference.log")
    yield found
    found.close()
