"""One store's reading, changing and commit protocol, over RocksDB and over memory."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from state import (
    NO_TIMESTAMP,
    Codec,
    KeyValueStore,
    StateResources,
    StoreCodecError,
    StoreMisuse,
    StoreSpec,
    open_store,
)
from state.backend import Row
from state.memory import MemoryBackend
from state.write_behind import SORT_ROWS_MAX, WRITE_ROWS_MAX

NUMBER = Codec(lambda value: b"%d" % value, int)


@pytest.fixture(params=["rocksdb", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyValueStore]:
    spec = StoreSpec("counts", value=NUMBER, persistent=request.param == "rocksdb")
    opened = open_store(spec, tmp_path / "counts", StateResources())
    yield opened
    opened.close()


def commit(store: KeyValueStore, changelog_offset: int | None = None) -> None:
    store.stage()
    store.commit(changelog_offset)


def test_an_absent_key_loads_as_an_empty_entry(store: KeyValueStore) -> None:
    """Processing may change the entry in place; it is in `dirty` then."""
    entry = store.load(b"a")
    assert entry[:2] == [None, NO_TIMESTAMP]
    assert store.dirty[b"a"] is entry


def test_an_entry_that_was_not_set_gives_no_changelog_row(store: KeyValueStore) -> None:
    """A look at an absent key is not a deletion."""
    store.load(b"a")
    assert store.stage() == []


def test_staged_rows_carry_key_value_and_timestamp(store: KeyValueStore) -> None:
    """In the form that the producer takes; a deletion is a row without a value."""
    store.load(b"a")[:2] = [1, 10]
    store.put(b"b", 2, 20)
    store.delete(b"c", 30)
    assert store.stage() == [
        (b"a", b"1", 10),
        (b"b", b"2", 20),
        (b"c", None, 30),
    ]


def test_committed_entries_load_again_with_their_timestamps(store: KeyValueStore) -> None:
    """From the cache as from the records below it."""
    store.put(b"a", 1, 10)
    commit(store, 5)
    assert store.changelog_offset == 5
    assert store.dirty == {}
    assert store.load(b"a")[:2] == [1, 10]


def test_abort_drops_changes_made_in_place(store: KeyValueStore) -> None:
    """The mutated object must be gone, staged or not, whichever layer the entry came from."""
    store.put(b"a", 1, 10)
    commit(store)
    store.load(b"a")[0] = 99
    store.abort()
    assert store.peek(b"a") == (1, 10)
    store.load(b"a")[0] = 99
    store.stage()
    store.abort()
    assert store.load(b"a")[:2] == [1, 10]


def test_a_deleted_key_loads_as_absent_after_the_commit(store: KeyValueStore) -> None:
    """With no trace of its last timestamp, whether it is still cached or not."""
    store.put(b"a", 1, 10)
    commit(store)
    store.delete(b"a", 20)
    commit(store)
    assert store.peek(b"a") is None
    assert store.load(b"a")[:2] == [None, NO_TIMESTAMP]


def test_peek_does_not_mark_the_key_as_changed(store: KeyValueStore) -> None:
    store.put(b"a", 1, 10)
    commit(store)
    assert store.peek(b"a") == (1, 10)
    assert store.peek(b"b") is None
    assert store.stage() == []


def test_queries_see_committed_values_only(store: KeyValueStore) -> None:
    """`peek_committed` looks below what may still be aborted."""
    store.put(b"a", 1, 10)
    commit(store)
    store.load(b"a")[:2] = [2, 20]
    assert store.peek(b"a") == (2, 20)
    assert store.peek_committed(b"a") == (1, 10)


def test_commit_without_stage_is_refused(store: KeyValueStore) -> None:
    store.put(b"a", 1, 10)
    with pytest.raises(StoreMisuse):
        store.commit(1)


def test_processing_goes_on_while_a_commit_is_under_way(store: KeyValueStore) -> None:
    store.put(b"a", 1, 10)
    store.delete(b"b", 10)
    store.stage()
    store.put(b"a", 2, 20)
    store.put(b"c", 3, 20)
    assert list(store.all()) == [(b"a", 2, 20), (b"c", 3, 20)]
    store.commit(2)
    assert store.peek_committed(b"a") == (1, 10)
    assert store.stage() == [(b"a", b"2", 20), (b"c", b"3", 20)]
    store.abort()
    assert list(store.all()) == [(b"a", 1, 10)]


def test_staging_again_adds_what_came_after(store: KeyValueStore) -> None:
    """A step downstream may change a store that was staged before it."""
    store.put(b"a", 1, 10)
    store.load(b"absent")
    assert store.stage() == [(b"a", b"1", 10)]
    store.put(b"a", 2, 20)
    store.put(b"b", 3, 20)
    assert store.stage() == [(b"a", b"1", 10), (b"a", b"2", 20), (b"b", b"3", 20)]
    store.commit(3)
    assert [store.peek_committed(key) for key in (b"a", b"b", b"absent")] == [(2, 20), (3, 20), None]
    store.flush()
    assert list(store.all()) == [(b"a", 2, 20), (b"b", 3, 20)]


def test_a_key_that_is_deleted_and_set_again_in_one_commit_keeps_its_timestamp(store: KeyValueStore) -> None:
    """Its deletion was staged first, but is not how the commit left it."""
    store.put(b"a", 1, 10)
    commit(store)
    store.delete(b"a", 20)
    store.stage()
    store.put(b"a", 2, 30)
    commit(store)
    assert store.peek(b"a") == (2, 30)


def test_a_failed_commit_leaves_what_was_there_before_it(store: KeyValueStore) -> None:
    """Of a key that was staged twice, too; and a new key is absent again."""
    store.put(b"a", 1, 10)
    commit(store, 1)
    for number in (2, 3):
        store.put(b"a", number, number * 10)
        store.put(b"new", number, number * 10)
        store.stage()
    assert [store.peek_committed(key) for key in (b"a", b"new")] == [(1, 10), None]
    store.abort()
    assert [store.peek(key) for key in (b"a", b"new")] == [(1, 10), None]
    store.put(b"b", 4, 40)
    commit(store, 2)
    store.flush()
    assert list(store.all()) == [(b"a", 1, 10), (b"b", 4, 40)]


def test_what_is_written_while_a_commit_is_under_way_is_what_was_committed_before(store: KeyValueStore) -> None:
    """A scan has the committed entries written first. If the commit fails nothing of it may be among them."""
    store.put(b"a", 1, 10)
    commit(store, 1)
    store.put(b"a", 2, 20)
    store.put(b"b", 2, 20)
    store.stage()
    assert list(store.all()) == [(b"a", 2, 20), (b"b", 2, 20)]
    backend = store._backend
    assert [(key, int(value), time) for key, value, time in backend.scan(None, None, backwards=False)] == [
        (b"a", 1, 10)
    ]
    assert [store.peek_committed(key) for key in (b"a", b"b")] == [(1, 10), None]
    store.commit(2)
    store.flush()
    assert [backend.get(key) for key in (b"a", b"b")] == [(b"2", 20), (b"2", 20)]


def test_queries_from_another_thread_never_see_what_is_not_committed() -> None:
    """Half of the commits fail; a reader that saw a value of theirs would see it go back."""
    store = KeyValueStore(StoreSpec("counts", value=NUMBER), MemoryBackend(), StateResources())
    ended, failures = threading.Event(), []

    def read() -> None:
        while not ended.is_set():
            found = store.peek_committed(b"a")
            if found is not None and found[0] % 2:
                failures.append(found)

    reader = threading.Thread(target=read)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        reader.start()
        for number in range(4_000):
            store.put(b"a", number, number)
            store.stage()
            if number % 2:
                store.abort()
            else:
                store.commit(number)
    finally:
        ended.set()
        reader.join()
        sys.setswitchinterval(interval)
    assert not failures


def test_a_value_that_does_not_fit_names_its_key_and_stages_nothing(store: KeyValueStore) -> None:
    """The codec's own error is chained; after an abort the store goes on."""
    store.put(b"good", 1, 10)
    store.put(b"bad", "text", 10)
    with pytest.raises(StoreCodecError, match=r"counts.*b'bad'.*str") as caught:
        store.stage()
    assert caught.value.key == b"bad"
    assert isinstance(caught.value.__cause__, TypeError)
    store.abort()
    assert store.stage() == []


def test_restore_applies_the_last_record_of_each_key(store: KeyValueStore) -> None:
    """Tombstones delete; the offset follows."""
    store.restore([b"a", b"b", b"a", b"c", b"b"], [b"1", b"2", b"3", b"4", None], [1, 2, 3, 4, 5], 105)
    assert store.changelog_offset == 105
    assert list(store.all()) == [(b"a", 3, 3), (b"c", 4, 4)]


def test_restore_is_refused_while_entries_are_uncommitted(store: KeyValueStore) -> None:
    store.load(b"a")
    with pytest.raises(StoreMisuse):
        store.restore([b"a"], [b"1"], [1], 1)


def test_a_restore_after_processing_is_seen_by_processing(store: KeyValueStore) -> None:
    """An active task that became a standby and then active again must not find its old cached entries."""
    store.put(b"a", 1, 10)
    commit(store, 1)
    store.restore([b"a"], [b"7"], [70], 2)
    assert store.load(b"a")[:2] == [7, 70]


def test_scans_merge_all_layers_in_key_order(store: KeyValueStore) -> None:
    """Written, committed and uncommitted entries; the newest of each key; deleted ones left out."""
    for key in (b"a", b"b", b"c", b"d"):
        store.put(key, 1, 1)
    commit(store, 1)
    store.flush()
    store.put(b"b", 2, 2)
    store.delete(b"c", 2)
    store.put(b"bb", 2, 2)
    commit(store, 2)
    store.put(b"d", 3, 3)
    store.delete(b"bb", 3)
    store.put(b"e", 3, 3)
    expected = [(b"a", 1, 1), (b"b", 2, 2), (b"d", 3, 3), (b"e", 3, 3)]
    assert list(store.all()) == expected
    assert list(store.all(backwards=True)) == expected[::-1]
    assert list(store.range(b"b", b"d")) == [(b"b", 2, 2)]
    assert list(store.range(b"b", None)) == expected[1:]
    assert list(store.range(b"d", b"b")) == []


def test_a_prefix_scan_ends_where_the_prefix_does(store: KeyValueStore) -> None:
    """Also for prefixes of the highest bytes, which have no next prefix of the same length."""
    for key in (b"", b"a", b"ab", b"ab\xff", b"ac", b"b", b"\xff", b"\xff\xff", b"\xff\xffz"):
        store.put(key, 1, 1)
    commit(store)
    store.flush()
    store.put(b"aba", 1, 1)
    assert [key for key, _, _ in store.prefix(b"ab")] == [b"ab", b"aba", b"ab\xff"]
    assert [key for key, _, _ in store.prefix(b"\xff\xff")] == [b"\xff\xff", b"\xff\xffz"]
    assert [key for key, _, _ in store.prefix(b"", backwards=True)][-1] == b""


def test_dirty_bytes_grow_with_uncommitted_entries(store: KeyValueStore) -> None:
    """So that the runtime can commit early."""
    assert store.dirty_bytes == 0
    for number in range(100):
        store.load(b"%d" % number)[:2] = [number, 1]
    assert store.dirty_bytes > 100 * 64
    commit(store)
    assert store.dirty_bytes == 0


def test_reopening_finds_the_values_and_their_offset(tmp_path: Path) -> None:
    """A clean close writes what the layers hold."""
    spec = StoreSpec("counts", value=NUMBER)
    store = open_store(spec, tmp_path / "counts", StateResources())
    store.put(b"a", 1, 10)
    commit(store, 7)
    store.put(b"a", 2, 20)
    store.close()
    store.close()
    reopened = open_store(spec, tmp_path / "counts", StateResources())
    assert reopened.changelog_offset == 7
    assert reopened.peek(b"a") == (1, 10)
    reopened.close()


def test_long_writes_go_in_parts() -> None:
    """Threads that wait for Python's lock get it in between; the offset comes with the last part, never before its values."""

    class Diary(MemoryBackend):
        def write(self, rows: Sequence[Row], changelog_offset: int | None) -> None:
            parts.append((len(rows), changelog_offset))
            super().write(rows, changelog_offset)

    parts: list[tuple[int, int | None]] = []
    store = KeyValueStore(StoreSpec("counts", value=NUMBER), Diary(), StateResources())
    for number in range(2 * WRITE_ROWS_MAX + 1):
        store.put(b"%d" % number, number, 1)
    commit(store, 7)
    store.flush()
    assert parts == [(WRITE_ROWS_MAX, None), (WRITE_ROWS_MAX, None), (1, 7)]


def test_closing_rests_between_its_writes() -> None:
    """Whoever closes a store may have it give way; nothing is lost by that, however many rows there are."""
    backend = MemoryBackend()
    store = KeyValueStore(StoreSpec("counts", value=NUMBER), backend, StateResources())
    keys = [b"%d" % number for number in range(SORT_ROWS_MAX + WRITE_ROWS_MAX + 1)]
    for number, key in enumerate(keys):
        store.put(key, number, 1)
    commit(store, 7)
    rests: list[float] = []
    kept: list[int] = []

    def rest(worked_s: float) -> None:
        rests.append(worked_s)
        kept.append(backend.approximate_num_entries())

    with patch.object(backend, "close"):
        store.close(rest)
    assert kept == sorted({*kept}), "each rest comes after more rows"
    assert len(rests) == -(-SORT_ROWS_MAX // WRITE_ROWS_MAX) + 1
    assert all(worked_s >= 0 for worked_s in rests)
    assert [found and found[0] for found in backend.get_many(keys)] == [
        NUMBER.encode(number) for number in range(len(keys))
    ]
    assert backend.changelog_offset == 7


def test_scans_forget_keys_that_were_aborted_or_committed(store: KeyValueStore) -> None:
    """The order of uncommitted keys is kept from scan to scan, but no longer than the keys."""
    for end_it in (store.abort, lambda: commit(store)):
        store.put(b"a", 1, 1)
        store.put(b"b", 1, 1)
        assert [key for key, _, _ in store.all()] == [b"a", b"b"]
        end_it()
        committed = [key for key, _, _ in store.all()]
        store.put(b"c", 1, 1)
        store.put(b"d", 1, 1)
        assert [key for key, _, _ in store.all()] == [*committed, b"c", b"d"]
        store.abort()


class CountingBackend(MemoryBackend):
    """Notes which keys are read together."""

    def __init__(self) -> None:
        super().__init__()
        self.read_together: list[set[bytes]] = []

    def get_many(self, keys: Sequence[bytes]) -> list[tuple[bytes, int] | None]:
        self.read_together.append(set(keys))
        return super().get_many(keys)


def process(store: KeyValueStore, *keys: bytes | None) -> None:
    """What generated code does with a batch."""
    store.prefetch(keys)
    for key in keys:
        if key is not None:
            _ = store.dirty.get(key) or store.load(key)


def test_keys_that_are_not_cached_are_read_together_if_the_last_batch_had_many() -> None:
    """And only then: for a state that is cached, looking for what is missing would cost more than it spares."""
    backend = CountingBackend()
    store = KeyValueStore(StoreSpec("counts", value=NUMBER), backend, StateResources())
    process(store, b"a", b"b")
    assert backend.read_together == []
    process(store, b"b", b"c", b"c", None, b"d")
    assert backend.read_together == [{b"c", b"d"}]
    process(store, b"a", b"b", b"c", b"d")
    assert backend.read_together == [{b"c", b"d"}, set()]
    process(store, b"e")
    assert backend.read_together == [{b"c", b"d"}, set()], "all of the last batch were cached"


def test_keys_read_together_are_as_the_newest_layer_has_them(store: KeyValueStore) -> None:
    """A record that was just restored has not reached the backend yet."""
    store.restore([b"a", b"b", b"c"], [b"1", b"2", b"3"], [10, 20, 30], 3)
    store.flush()
    store.restore([b"a", b"b"], [b"7", None], [70, 80], 5)
    process(store, b"x")
    process(store, b"a", b"b", b"c", b"d")
    assert {key: entry[:2] for key, entry in store.dirty.items()} == {
        b"x": [None, NO_TIMESTAMP],
        b"a": [7, 70],
        b"b": [None, NO_TIMESTAMP],
        b"c": [3, 30],
        b"d": [None, NO_TIMESTAMP],
    }


def test_a_value_that_cannot_be_decoded_is_reported_for_the_record_that_needs_it(store: KeyValueStore) -> None:
    """Reading ahead is not the place: the message there would name no record."""
    store.restore([b"a", b"b"], [b"no number", b"2"], [10, 20], 2)
    store.flush()
    process(store, b"x")
    store.prefetch([b"a", b"b"])
    assert store.load(b"b")[:2] == [2, 20]
    with pytest.raises(StoreCodecError, match="b'a' cannot be decoded"):
        store.load(b"a")
