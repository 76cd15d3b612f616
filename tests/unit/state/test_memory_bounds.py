"""What a store keeps in memory, and when it writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from state import Codec, KeyValueStore, StateResources, StoreSpec, open_store, write_behind
from state import store as store_module
from state.backend import Row
from state.key_order import KeyOrder
from state.memory import MemoryBackend
from state.spec import RAW

NUMBER = Codec(lambda value: b"%d" % value, int)


def keys(count: int) -> list[bytes]:
    return [b"%08d" % number for number in range(count)]


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[KeyValueStore]]:
    opened: list[KeyValueStore] = []
    yield opened
    for store in opened:
        store.close()


def store_with(stores: list[KeyValueStore], path: Path, resources: StateResources) -> KeyValueStore:
    store = open_store(StoreSpec("counts", value=NUMBER), path, resources)
    stores.append(store)
    return store


def count(store: KeyValueStore, raw_keys: list[bytes], changelog_offset: int) -> None:
    for key in raw_keys:
        entry = store.load(key)
        entry[0] = (entry[0] or 0) + 1
        entry[1] = changelog_offset
    store.stage()
    store.commit(changelog_offset)


def test_committed_entries_gather_before_they_are_written(stores: list[KeyValueStore], tmp_path: Path) -> None:
    """The same keys over and over cost one write."""
    store = store_with(stores, tmp_path / "counts", StateResources())
    for offset in range(1, 50):
        count(store, keys(100), offset * 100)
    assert store._backend.changelog_offset is None
    store.flush()
    assert store._backend.changelog_offset == 4_900
    assert store.peek_committed(b"00000000") == (49, 4_900)


def test_the_replay_after_a_crash_is_short(
    stores: list[KeyValueStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few the keys are: so many changelog records at most are not in RocksDB."""
    monkeypatch.setattr(write_behind, "REPLAY_RECORDS_MAX", 1_000)
    store = store_with(stores, tmp_path / "counts", StateResources())
    for offset in range(100, 10_100, 100):
        count(store, keys(10), offset)
        assert offset - (store._backend.changelog_offset or 0) <= 1_000


def test_more_entries_than_fit_are_counted_rightly(stores: list[KeyValueStore], tmp_path: Path) -> None:
    """They come back from RocksDB, and what is in memory stays within its share."""
    resources = StateResources(cache_bytes=200_000)
    store = store_with(stores, tmp_path / "counts", resources)
    for offset in range(1, 6):
        count(store, keys(2_000), offset * 2_000)
        assert len(store._cached) * store_module.ENTRY_BYTES <= resources.cache_share_bytes
    assert [value for _, value, _ in store.all()] == [5] * 2_000


def test_reading_alone_fills_the_cache_only_up_to_its_share(stores: list[KeyValueStore], tmp_path: Path) -> None:
    store = store_with(stores, tmp_path / "counts", StateResources(cache_bytes=100_000))
    count(store, keys(2_000), 2_000)
    store.stage()
    store.commit(None)
    for key in keys(2_000):
        assert store.peek(key) == (1, 2_000)
    assert len(store._cached) * store_module.ENTRY_BYTES <= 100_000


def test_open_stores_share_the_memory(stores: list[KeyValueStore], tmp_path: Path) -> None:
    resources = StateResources(cache_bytes=1_000_000)
    store_with(stores, tmp_path / "a", resources)
    second = store_with(stores, tmp_path / "b", resources)
    assert resources.cache_share_bytes == 500_000
    second.close()
    assert resources.cache_share_bytes == 1_000_000


def test_values_that_are_bytes_are_counted_once(stores: list[KeyValueStore], tmp_path: Path) -> None:
    """Where decoding makes no second object the same memory holds more: of values of 1 000 bytes three times as many."""
    held = {}
    for name, codec in (("same", RAW), ("decoded", Codec(bytes.upper, bytes.lower))):
        store = open_store(StoreSpec(name, value=codec), tmp_path / name, StateResources(cache_bytes=1_000_000))
        stores.append(store)
        for offset in range(2_000, 20_000, 2_000):  # the mean sizes follow step by step
            for key in keys(2_000):
                store.put(key, b"v" * 1_000, 1)
            store.stage()
            store.commit(offset)
        held[name] = len(store._cached)
        store.close()
    assert held["same"] == pytest.approx(1_000_000 / 1_300, rel=0.02)
    assert held["decoded"] == pytest.approx(1_000_000 / 4_300, rel=0.02)


def test_a_share_that_gets_smaller_is_kept_step_by_step(stores: list[KeyValueStore], tmp_path: Path) -> None:
    """Opening another store halves it; writing half of a cache in one commit would hold processing up."""
    resources = StateResources(cache_bytes=10_000_000)
    store = store_with(stores, tmp_path / "a", resources)
    count(store, keys(20_000), 20_000)
    for name in "bcdefgh":
        store_with(stores, tmp_path / name, resources)
    sizes = [len(store._cached)]
    while len(store._cached) * store_module.ENTRY_BYTES > resources.cache_share_bytes:
        count(store, keys(1), len(sizes))
        sizes.append(len(store._cached))
    assert len(sizes) > 5
    step = max(1 + store_module.EVICTED_ENTRIES_MIN, 20_000 // store_module.EVICTED_SHARE)
    assert all(0 < before - after <= step for before, after in pairwise(sizes))
    assert [value for _, value, _ in store.all()] == [len(sizes)] + [1] * 19_999


@pytest.mark.parametrize("restored", [0, 10, 5_000])
def test_after_a_restore_no_commit_writes_all_that_has_gathered(monkeypatch: pytest.MonkeyPatch, restored: int) -> None:
    """What a restore left unwritten goes with the first rows that are written; what was processed since has its own time."""
    written: list[int] = []

    class Diary(MemoryBackend):
        def write(self, rows: Sequence[Row], changelog_offset: int | None) -> None:
            written.append(len(rows))
            super().write(rows, changelog_offset)

    monkeypatch.setattr(write_behind, "REPLAY_RECORDS_MAX", 20_000)
    store = KeyValueStore(StoreSpec("counts", value=NUMBER), Diary(), StateResources(cache_bytes=4_000_000))
    first = keys(restored)
    store.restore(first, [b"1"] * restored, [1] * restored, restored)
    for number in range(1, 301):
        before = len(written)
        count(store, keys(number * 100)[-100:], restored + number * 100)
        most = 100 + write_behind.PASS_ENTRIES_MIN + (0 if any(written[:before]) else restored)
        assert sum(written[before:]) <= most
    assert any(written)
    assert [value for _, value, _ in store.all()] == [2] * restored + [1] * (30_000 - restored)
    store.close()


def test_restored_records_are_written_in_bounded_portions(stores: list[KeyValueStore], tmp_path: Path) -> None:
    """So that no single write holds up the other threads for long."""
    store = store_with(stores, tmp_path / "counts", StateResources())
    many = keys(store_module.RESTORED_RECORDS_MAX + 10)
    store.restore(many[:1000], [b"1"] * 1000, [1] * 1000, 1000)
    assert store._backend.changelog_offset is None
    store.restore(many, [b"1"] * len(many), [1] * len(many), 1000 + len(many))
    assert store._backend.changelog_offset == 1000 + len(many)


def test_keys_are_put_in_order_as_they_come() -> None:
    """Few at a time are inserted, many are sorted in."""
    entries: dict[bytes, None] = dict.fromkeys([b"m"])
    order = KeyOrder(entries)
    assert order.between(None, None) == [b"m"]
    entries.update(dict.fromkeys([b"z", b"a"]))
    assert order.between(None, b"z") == [b"a", b"m"]
    entries.update(dict.fromkeys(keys(100)))
    assert order.between(b"00000099", None) == [b"00000099", b"a", b"m", b"z"]
    entries.clear()
    order.reset()
    assert order.between(None, None) == []
