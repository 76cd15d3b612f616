"""A prepared store takes the place of the old one; wherever a crash interrupts that, one of them is there, whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from state import (
    StateError,
    StateResources,
    StoreFormat,
    StoreSpec,
    open_store,
    prepared_path,
    replace,
    replace_by_prepared,
)

SPEC = StoreSpec("names")


class Crash(Exception):
    """Stands for the end of the process at this point."""


def make(path: Path, value: bytes, changelog_offset: int, value_format: StoreFormat) -> None:
    store = open_store(SPEC, path, StateResources(), new_format=value_format)
    store.restore([b"a"], [value], [5], changelog_offset)
    store.close()


def found(path: Path) -> tuple[StoreFormat, int | None, list[tuple[bytes, bytes, int]]]:
    store = open_store(SPEC, path, StateResources())
    try:
        return store.format, store.changelog_offset, list(store.all())
    finally:
        store.close()


OLD = (StoreFormat.PLAIN, 7, [(b"a", b"old", -1)])
NEW = (StoreFormat.TIMESTAMPED, 9, [(b"a", b"new", 5)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A plain store, and beside it a timestamped one that was prepared."""
    path = tmp_path / "names"
    make(path, b"old", 7, StoreFormat.PLAIN)
    make(prepared_path(path), b"new", 9, StoreFormat.TIMESTAMPED)
    return path


def test_the_prepared_store_takes_the_place(path: Path) -> None:
    """And nothing else is left."""
    replace_by_prepared(path)
    assert found(path) == NEW
    assert [entry.name for entry in path.parent.iterdir()] == ["names"]


def test_a_prepared_store_alone_needs_no_old_one(tmp_path: Path) -> None:
    """As where a new instance prepared stores that it never had."""
    make(prepared_path(tmp_path / "names"), b"new", 9, StoreFormat.TIMESTAMPED)
    replace_by_prepared(tmp_path / "names")
    assert found(tmp_path / "names") == NEW


def test_without_a_prepared_store_nothing_is_touched(tmp_path: Path) -> None:
    make(tmp_path / "names", b"old", 7, StoreFormat.PLAIN)
    with pytest.raises(StateError, match="no prepared store"):
        replace_by_prepared(tmp_path / "names")
    assert found(tmp_path / "names") == OLD


def crashing(calls: int) -> Callable[[Path], None]:
    """A `_sync` that ends the process at its n-th call."""
    remaining = calls

    def sync(_directory: Path) -> None:
        nonlocal remaining
        remaining -= 1
        if remaining == 0:
            raise Crash

    return sync


@pytest.mark.parametrize("calls", [1, 2])
def test_a_crash_between_the_renames_is_finished_at_the_next_opening(
    path: Path, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first rename there is no store under its name; after the second the old one is still there."""
    with monkeypatch.context() as patched:
        patched.setattr(replace, "_sync", crashing(calls))
        with pytest.raises(Crash):
            replace_by_prepared(path)
    assert found(path) == NEW
    assert [entry.name for entry in path.parent.iterdir()] == ["names"]


def test_a_crash_that_lost_the_prepared_store_leaves_the_old_one(path: Path) -> None:
    """Nothing in the protocol does that, but a hand may."""
    path.rename(path.with_name("names.replaced"))
    prepared_path(path).rename(path.parent / "elsewhere")
    assert found(path) == OLD


def test_a_prepared_store_may_wait(path: Path) -> None:
    """Until it is asked for, the old one is used and the prepared one is left alone."""
    assert found(path) == OLD
    assert found(prepared_path(path)) == NEW
