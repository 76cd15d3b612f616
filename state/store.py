"""A task's key-value store: uncommitted entries above committed ones, above the records that a backend keeps.

Layers, newest first:

    dirty       uncommitted: the entries that processing has loaded or set since the last `stage`.
    staged      uncommitted: those of the commit that is under way. Processing goes on meanwhile, in `dirty`.
    cached      committed entries, decoded, bounded in bytes. A dirty or staged entry is in here too, as the same object.
                Those that the backend does not have yet carry their encoded value along.
    restored    changelog records on their way to the backend.
    backend     RocksDB (or memory), with the changelog offset that its records stand for.

The commit protocol is `stage` (encode; gives the changelog rows; again for what came after), then `commit` once the
transaction with those rows is committed, or `abort`. So the backend never holds uncommitted data, and a crash costs a
replay of the changelog's tail: committed entries are written to the backend some time later, see `write_behind`.

Everything here is bound by cache misses of the processor, so a key costs as few look-ups as possible: an entry stays
where it is through commits, and a commit goes over the dirty entries once, when it begins: see `staging`.
"""

from __future__ import annotations

import weakref
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import Any

from state.backend import Backend, Row
from state.errors import StoreCodecError, StoreMisuse
from state.format import NO_TIMESTAMP, StoreFormat
from state.key_order import KeyOrder
from state.resources import StateResources
from state.spec import StoreSpec
from state.staging import Entry, Staging
from state.write_behind import Rest, WriteBehind, no_rest

RESTORED_RECORDS_MAX = 8_192
"""Restored records that are gathered before they are written: of a key's records only the newest is."""
EVICTED_ENTRIES_MIN = 1_024
EVICTED_SHARE = 32
"""A commit lets go of this many entries beyond those it brought, or of one in so many of the excess: a store's share of memory
halves when the worker opens others, and half a cache written at once held the processing up for a second (an eighth of it,
for a fifth of a second, in each of several commits)."""
ENTRY_BYTES = 300
"""What Python needs for an entry beside its key's and value's bytes: dict slot, list, tuple, numbers, object headers."""
DECODED_FACTOR = 4
"""An encoded value is kept in both forms, and decoded JSON takes about three times its bytes. Bytes that are their own encoded
form are kept once."""
FIRST_VALUE_BYTES = 16.0
FIRST_KEY_BYTES = 32.0
"""Guesses at the mean sizes, until the first commit has been measured."""
PREFETCH_SHARE = 1 / 16
"""Keys of a batch that were not cached, from which on the next batch's are read together: that costs two thirds of reading
them one by one, but a look-up more for each key that is cached."""
SAMPLING = 8
"""Every eighth record's size is measured."""


def key_after_prefix(prefix: bytes) -> bytes | None:
    """The first key after all that begin with `prefix`; None when there is none (the prefix is empty or all 0xff)."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


class KeyValueStore:
    """One store of one task. Owned by one thread at a time; only `peek_committed` may be called from others.

    Keys are bytes; values are what the spec's codec makes of them. See the module for the layers and the protocol.
    Raises StateError (StoreDamaged, StoreDiskFull, ...) where the backend fails, StoreCodecError where the codec does.
    """

    def __init__(self, spec: StoreSpec, backend: Backend, resources: StateResources) -> None:
        self.spec = spec
        self.dirty: dict[bytes, Entry] = {}
        self._cached: dict[bytes, Entry] = {}
        self.cached = self._cached.get
        """A cached key's entry, or None. Whoever changes it puts it into `dirty`, too: that is `load` without its call."""
        self._batch_keys = 0
        self._batch_reads = 0
        """Of the present batch: its keys, and those of them that were not cached."""
        self._backend = backend
        self._behind = WriteBehind(backend)
        self._restored = self._behind.restored
        self._resources = resources
        resources.store_opened(self)
        self._encode = spec.value.encode
        self._decode = spec.value.decode
        self._staging = Staging()
        self.staged = self._staging.entries
        self._key_bytes = FIRST_KEY_BYTES
        self._value_bytes = FIRST_VALUE_BYTES
        self._value_factor = DECODED_FACTOR
        self._cached_max = self._entries_max()
        self._dirty_order = KeyOrder(self.dirty)
        self._scans: weakref.WeakSet[Generator[Any, None, None]] = weakref.WeakSet()
        self._closed = False

    # -- reading and changing ---------------------------------------------------------------------------------------

    def load(self, key: bytes) -> Entry:
        """Bring the key's entry into `dirty` and return it, to be changed in place.

        `[None, NO_TIMESTAMP, ...]` when the key is absent. Not to be called for a key that is in `dirty` already.
        """
        entry = self._cached.get(key)
        if entry is None:
            entry = self._cached[key] = self._read(key)
        self.dirty[key] = entry
        return entry

    def prefetch(self, keys: Sequence[bytes | None]) -> None:
        """Tell the keys of a batch that is about to be processed: where many are not cached they are read together."""
        many = self._batch_reads > PREFETCH_SHARE * self._batch_keys
        self._batch_keys, self._batch_reads = len(keys), 0
        if many:
            missing = set(keys).difference(self._cached, self._restored)
            self._read_together([key for key in missing if key is not None])

    def _read_together(self, keys: Sequence[bytes]) -> None:
        self._batch_reads = len(keys)
        decode, cached = self._decode, self._cached
        for key, found in zip(keys, self._backend.get_many(keys), strict=True):
            if found is None:
                cached[key] = [None, NO_TIMESTAMP, None]
                continue
            try:
                cached[key] = [decode(found[0]), found[1], None]
            except Exception:  # to be reported for the record that needs it: `load` will find out again
                continue

    def _read(self, key: bytes) -> Entry:
        """The entry of a key that is not cached."""
        self._batch_reads += 1
        value, timestamp_ms = self._stored(key)
        return [None if value is None else self._decode_value(key, value), timestamp_ms, None]

    def _stored(self, key: bytes) -> tuple[bytes | None, int]:
        """What is below the cached entries: `(encoded value, timestamp_ms)`."""
        if self._restored:
            row = self._restored.get(key)
            if row is not None:
                return (None, NO_TIMESTAMP) if row[1] is None else row[1:]
        return self._backend.get(key) or (None, NO_TIMESTAMP)

    def _decode_value(self, key: bytes, value: bytes) -> Any:
        try:
            return self._decode(value)
        except Exception as error:
            raise StoreCodecError(
                f"store {self.spec.name}: the value kept under key {key!r} cannot be decoded ({error!r}); was the "
                "value's serde changed? Then reset the application, or give the store a new name",
                key,
            ) from error

    def peek(self, key: bytes) -> tuple[Any, int] | None:
        """`(value, timestamp_ms)` as processing sees it now, or None; the value must not be changed in place."""
        entry = self._cached.get(key)
        if entry is None:
            entry = self._read(key)
            if len(self._cached) < self._cached_max:
                self._cached[key] = entry
        return None if entry[0] is None else (entry[0], entry[1])

    def peek_committed(self, key: bytes) -> tuple[Any, int] | None:
        """`(value, timestamp_ms)` as last committed, or None: for queries from other threads.

        The value is decoded anew each time, so it is the caller's own whatever processing does meanwhile.
        """
        entry = self._cached.get(key)
        row = None if entry is None else self._staging.committed_row(entry)
        value, timestamp_ms = row[1:] if row is not None else self._stored(key)
        return None if value is None else (self._decode_value(key, value), timestamp_ms)

    def get(self, key: bytes) -> Any:
        """The value as processing sees it now, or None; it must not be changed in place."""
        found = self.peek(key)
        return None if found is None else found[0]

    def put(self, key: bytes, value: Any, timestamp_ms: int) -> None:
        """Set the key's value; None deletes it."""
        entry = self._cached.get(key)
        if entry is None:
            entry = self._cached[key] = [value, timestamp_ms, None]
        else:
            entry[0] = value
            entry[1] = timestamp_ms
        if value is None and timestamp_ms == NO_TIMESTAMP:
            entry[1] = 0  # so that it is not taken for a key that was looked at and is absent
        self.dirty[key] = entry

    def delete(self, key: bytes, timestamp_ms: int) -> None:
        """Remove the key; its changelog gets a tombstone with this timestamp."""
        self.put(key, None, timestamp_ms)

    # -- scans ------------------------------------------------------------------------------------------------------

    def range(
        self, start: bytes | None = None, end: bytes | None = None, *, backwards: bool = False
    ) -> Iterator[tuple[bytes, Any, int]]:
        """`(key, value, timestamp_ms)` in key order, from `start` (None: the first) up to, not including, `end`.

        Sees what processing sees, as it stands when the first row is asked for. Values must not be changed in place.
        """
        scan = self._scan(start, end, backwards)
        self._scans.add(scan)
        return scan

    def prefix(self, prefix: bytes, *, backwards: bool = False) -> Iterator[tuple[bytes, Any, int]]:
        """As `range`, over the keys that begin with `prefix`."""
        return self.range(prefix, key_after_prefix(prefix), backwards=backwards)

    def all(self, *, backwards: bool = False) -> Iterator[tuple[bytes, Any, int]]:
        """As `range`, over all keys."""
        return self.range(backwards=backwards)

    def approximate_num_entries(self) -> int:
        """About how many keys the store has; keys that were changed and not yet written may count twice."""
        return self._backend.approximate_num_entries() + len(self._behind) + len(self.dirty)

    def _scan(
        self, start: bytes | None, end: bytes | None, backwards: bool
    ) -> Generator[tuple[bytes, Any, int], None, None]:
        # Stores that are scanned are written at each scan that follows a commit; what is above the backend is then dirty.
        if len(self._behind):
            self._write()
        uncommitted = self._dirty_order.between(start, end)
        if self.staged:
            # Two runs in order, which Python's sort merges in one pass.
            uncommitted = list(dict.fromkeys(sorted(uncommitted + self._staging.order.between(start, end))))
        newer = [(key, *self._cached[key][:2]) for key in uncommitted]
        if backwards:
            newer.reverse()
        position = 0
        for key, value, timestamp_ms in self._backend.scan(start, end, backwards=backwards):
            while position < len(newer) and (newer[position][0] > key if backwards else newer[position][0] < key):
                if newer[position][1] is not None:
                    yield newer[position]
                position += 1
            if position == len(newer) or newer[position][0] != key:
                yield key, self._decode_value(key, value), timestamp_ms
        for row in newer[position:]:
            if row[1] is not None:
                yield row

    # -- the commit protocol ----------------------------------------------------------------------------------------

    @property
    def format(self) -> StoreFormat:
        """How values are kept on disk: timestamped, unless the store was made by an older version."""
        return self._backend.format

    @property
    def changelog_offset(self) -> int | None:
        """The next changelog offset to restore from: what the committed layers stand for. None: from the beginning."""
        return self._behind.changelog_offset

    @property
    def dirty_bytes(self) -> int:
        """About how much memory the uncommitted entries take."""
        return int((len(self.dirty) + len(self.staged)) * self._entry_bytes)

    def stage(self) -> list[Row]:
        """Encode the dirty entries and return the changelog rows of all that is staged.

        `dirty` is empty then. What comes into it before `commit` or `abort` can be staged too, by another call, or left
        for the next commit. An entry that is absent and was not set gives no row.

        Raises:
            StoreCodecError: the codec refuses a value; nothing more is staged.
        """
        staging = self._staging
        try:
            staging.add(self.dirty, self._encode)
        except Exception as error:
            raise self._encode_error(error) from error
        assert staging.rows is not None
        if staging.rows:
            key, encoded, _ = staging.rows[-1]
            if encoded is not None and key in self.dirty:
                self._value_factor = 1 if self.dirty[key][0] is encoded else DECODED_FACTOR
        self._forget_dirty()
        return staging.rows

    def _forget_dirty(self) -> None:
        self.dirty.clear()
        self._dirty_order.reset()

    def _encode_error(self, error: Exception) -> StoreCodecError:
        """The error to report when a value could not be encoded: finds out whose it is."""
        for key, (value, *_) in self.dirty.items():
            try:
                if value is not None:
                    self._encode(value)
            except Exception:
                return StoreCodecError(
                    f"store {self.spec.name}: the value of key {key!r}, a {type(value).__name__}, does not fit the "
                    f"value's serde: {error!r}",
                    key,
                )
        return StoreCodecError(f"store {self.spec.name}: a value cannot be encoded: {error!r}", b"")

    def commit(self, changelog_offset: int | None) -> None:
        """Make what was staged the committed state, standing for `changelog_offset` (None: as before).

        Raises:
            StoreMisuse: not staged.
            StateError: the backend failed; the store must be closed and opened again, and restores what is missing.
        """
        rows = self._staging.rows
        if rows is None:
            raise StoreMisuse(f"store {self.spec.name}: commit() without stage()")
        self._behind.add(self._staging.finish(self.dirty))
        if changelog_offset is not None:
            self._behind.changelog_offset = changelog_offset
        if rows:
            sample = rows[::SAMPLING]
            self._measure([row[0] for row in sample], [row[1] for row in sample])
        self._make_room(len(rows))

    def abort(self) -> None:
        """Drop everything uncommitted, staged or not; the store is as it was after the last commit."""
        uncommitted = self.staged.keys() | self.dirty.keys()
        self._staging.undo()
        for key in uncommitted:
            entry = self._cached[key]
            if entry[2] is None:
                del self._cached[key]
            else:
                _, value, timestamp_ms = entry[2]
                entry[0] = None if value is None else self._decode_value(key, value)
                entry[1] = NO_TIMESTAMP if value is None else timestamp_ms
        self._forget_dirty()

    def restore(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps_ms: Sequence[int], next_offset: int
    ) -> None:
        """Apply changelog records, in offset order; the store then stands for `next_offset`. A value of None deletes.

        Raises:
            StoreMisuse: the store has uncommitted entries.
            StateError: as `commit`.
        """
        if self.dirty or self._staging.rows is not None:
            raise StoreMisuse(f"store {self.spec.name}: restore() while entries are uncommitted")
        if self._cached:
            self._write()
            self._cached.clear()
        if keys:
            self._restored.update(zip(keys, zip(keys, values, timestamps_ms, strict=True), strict=True))
            self._measure(keys[::SAMPLING], values[::SAMPLING])
        self._behind.changelog_offset = next_offset
        if len(self._restored) > min(RESTORED_RECORDS_MAX, self._entries_max()):
            self._write()

    # -- what is kept where -----------------------------------------------------------------------------------------

    def _measure(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Let the mean sizes follow these records, so that layers can be bounded by their number of entries."""
        self._key_bytes += (sum(map(len, keys)) / len(keys) - self._key_bytes) / 2
        self._value_bytes += (sum(map(len, filter(None, values))) / len(values) - self._value_bytes) / 2

    @property
    def _entry_bytes(self) -> float:
        return ENTRY_BYTES + self._key_bytes + self._value_factor * self._value_bytes

    def _entries_max(self) -> int:
        """How many entries this store's share of memory holds."""
        return int(self._resources.cache_share_bytes / self._entry_bytes)

    def _make_room(self, committed: int) -> None:
        """After a commit of so many rows: keep to this store's share of memory, and the replay after a crash short."""
        self._cached_max = self._entries_max()
        excess = len(self._cached) - self._cached_max
        if excess > 0:
            self._evict(min(excess, max(committed + EVICTED_ENTRIES_MIN, excess // EVICTED_SHARE)))
        self._behind.go_on(committed)

    def _evict(self, count: int) -> None:
        """Let go of the entries that have been here longest. Keys that are in use come back with their next record."""
        cached, dirty = self._cached, self.dirty
        keys = list(islice(cached, count))
        self._behind.write([cached[key] for key in keys])
        for key in keys:
            if key not in dirty:
                del cached[key]

    def _write(self, rest: Rest = no_rest) -> None:
        """Hand everything committed to the backend."""
        if self._behind:
            with self._staging.aside():
                self._behind.write_all(rest)

    def flush(self) -> None:
        """Have the committed state survive a crash of the machine, with its changelog offset; blocks until it does."""
        self._write()
        self._backend.flush(wait=True)

    def close(self, rest: Rest = no_rest) -> None:
        """Flush, drop what is uncommitted, end open scans, and let go of files and locks. Closing twice is no error.

        `rest` is called between two writes.
        """
        if self._closed:
            return
        self._closed = True
        self._resources.store_closed(self)
        self._staging.undo()
        self._forget_dirty()
        for scan in list(self._scans):
            scan.close()
        try:
            self._write(rest)
        finally:
            while self._cached:  # to clear a large dict at once would stop all other threads
                self._cached.popitem()
            self._backend.close()
