"""A task's key-value store: uncommitted entries above committed ones, above the records that a backend keeps.

Layers, newest first; each key is looked up in that order:

    dirty       uncommitted: decoded entries that processing changes in place. Dropped by `abort`.
    clean       committed: a bounded cache of decoded entries. An entry that processing asks for moves to `dirty`, so
                that what a user's function does to a value in place is gone with it after an `abort`.
    unwritten   committed, newer than the backend: encoded values, gathered over several commits.
    backend     RocksDB (or memory), with the changelog offset that its records stand for.

The commit protocol is `stage` (encode; gives the changelog rows), then `commit` once the transaction with those rows is
committed, or `abort`. So the backend never holds uncommitted data, and a crash costs a replay of the changelog's tail:
at most about `REPLAY_RECORDS_MAX` records plus one commit. Writing to the backend once in several commits spares most
of its work where the same keys change again and again, and replay after a crash was needed anyhow, since RocksDB runs
without its own log.
"""

from __future__ import annotations

import weakref
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, TypedDict

from state.backend import Backend, Stored
from state.errors import StoreCodecError, StoreMisuse
from state.format import NO_TIMESTAMP, StoreFormat
from state.key_order import KeyOrder
from state.resources import StateResources
from state.spec import StoreSpec

Entry = list[Any]
"""`[value, timestamp_ms]`: a decoded value (None: absent) and its record's timestamp (`NO_TIMESTAMP`: absent or unknown)."""


class ChangelogRow(TypedDict):
    """One record for the changelog, in the form that the producer takes batches in."""

    key: bytes
    value: bytes | None
    timestamp: int


REPLAY_RECORDS_MAX = 500_000
"""Committed changelog records that may be missing from the backend: about a second of replay after a crash."""
CLEAN_ENTRY_BYTES = 240
UNWRITTEN_ENTRY_BYTES = 220
DIRTY_ENTRY_BYTES = 240
"""What Python needs for an entry beside its key's and its encoded value's bytes: dict slot, list or tuple, objects."""
FIRST_PAYLOAD_BYTES = 64.0
"""A guess at the mean size of key and value together, until the first commit has been measured."""

_key_of = itemgetter("key")
_value_of = itemgetter("value")
_stored_of = itemgetter("value", "timestamp")


def key_after_prefix(prefix: bytes) -> bytes | None:
    """The first key after all that begin with `prefix`; None when there is none (the prefix is empty or all 0xff)."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


class KeyValueStore:
    """One store of one task. Owned by one thread at a time; only `peek` and `peek_committed` may be called from others.

    Keys are bytes; values are what the spec's codec makes of them. See the module for the layers and the protocol.
    Raises StateError (StoreDamaged, StoreDiskFull, ...) where the backend fails, StoreCodecError where the codec does.
    """

    def __init__(self, spec: StoreSpec, backend: Backend, resources: StateResources) -> None:
        self.spec = spec
        self.dirty: dict[bytes, Entry] = {}
        self._backend = backend
        self._resources = resources
        self._encode = spec.value.encode
        self._decode = spec.value.decode
        self._clean: dict[bytes, Entry] = {}
        self._unwritten: dict[bytes, Stored] = {}
        self._staged: list[ChangelogRow] | None = None
        self._changelog_offset = backend.changelog_offset
        self._written_offset = backend.changelog_offset
        self._payload_bytes = FIRST_PAYLOAD_BYTES
        self._dirty_order = KeyOrder(self.dirty)
        self._unwritten_order = KeyOrder(self._unwritten)
        self._scans: weakref.WeakSet[Generator[Any, None, None]] = weakref.WeakSet()
        self._closed = False
        resources.store_opened(self)

    # -- reading and changing ---------------------------------------------------------------------------------------

    def load(self, key: bytes) -> Entry:
        """Bring the key's committed entry into `dirty` and return it, to be changed in place.

        `[None, NO_TIMESTAMP]` when the key is absent. Not to be called for a key that is in `dirty` already.
        """
        entry = self._clean.pop(key, None)
        if entry is None:
            entry = self._read(key)
        self.dirty[key] = entry
        return entry

    def _read(self, key: bytes) -> Entry:
        stored: Stored | None = self._unwritten.get(key)
        if stored is None:
            stored = self._backend.get(key)
            if stored is None:
                return [None, NO_TIMESTAMP]
        value, timestamp_ms = stored
        if value is None:
            return [None, NO_TIMESTAMP]
        return [self._decode_value(key, value), timestamp_ms]

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
        entry = self.dirty.get(key)
        if entry is None:
            return self.peek_committed(key)
        return None if entry[0] is None else (entry[0], entry[1])

    def peek_committed(self, key: bytes) -> tuple[Any, int] | None:
        """`(value, timestamp_ms)` as last committed, or None; for queries, which must not see what may be aborted."""
        entry = self._clean.get(key)
        if entry is None:
            entry = self._read(key)
        return None if entry[0] is None else (entry[0], entry[1])

    def get(self, key: bytes) -> Any:
        """The value as processing sees it now, or None; it must not be changed in place."""
        found = self.peek(key)
        return None if found is None else found[0]

    def put(self, key: bytes, value: Any, timestamp_ms: int) -> None:
        """Set the key's value; None deletes it."""
        self.dirty[key] = [value, timestamp_ms]

    def delete(self, key: bytes, timestamp_ms: int) -> None:
        """Remove the key; its changelog gets a tombstone with this timestamp."""
        self.dirty[key] = [None, timestamp_ms]

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
        return self._backend.approximate_num_entries() + len(self._unwritten) + len(self.dirty)

    def _scan(
        self, start: bytes | None, end: bytes | None, backwards: bool
    ) -> Generator[tuple[bytes, Any, int], None, None]:
        newer = self._newer_entries(start, end, backwards)
        position = 0
        for key, value, timestamp_ms in self._backend.scan(start, end, backwards=backwards):
            while position < len(newer) and (newer[position][0] > key if backwards else newer[position][0] < key):
                yield from self._row(*newer[position])
                position += 1
            if position < len(newer) and newer[position][0] == key:
                continue
            yield key, self._decode_value(key, value), timestamp_ms
        for newer_key, stored, entry in newer[position:]:
            yield from self._row(newer_key, stored, entry)

    def _row(self, key: bytes, stored: Stored | None, entry: Entry | None) -> Iterator[tuple[bytes, Any, int]]:
        if entry is not None:
            if entry[0] is not None:
                yield key, entry[0], entry[1]
        elif stored is not None and stored[0] is not None:
            yield key, self._decode_value(key, stored[0]), stored[1]

    def _newer_entries(
        self, start: bytes | None, end: bytes | None, backwards: bool
    ) -> list[tuple[bytes, Stored | None, Entry | None]]:
        """What the layers above the backend hold of these keys, in order, as it stands now."""
        dirty, unwritten = self.dirty, self._unwritten
        keys = self._dirty_order.between(start, end)
        committed_keys = self._unwritten_order.between(start, end)
        if committed_keys:
            keys = sorted({*keys, *committed_keys})
        if backwards:
            keys.reverse()
        return [(key, unwritten.get(key), list(dirty[key]) if key in dirty else None) for key in keys]

    # -- the commit protocol ----------------------------------------------------------------------------------------

    @property
    def format(self) -> StoreFormat:
        """How values are kept on disk: timestamped, unless the store was made by an older version."""
        return self._backend.format

    @property
    def changelog_offset(self) -> int | None:
        """The next changelog offset to restore from: what the committed layers stand for. None: from the beginning."""
        return self._changelog_offset

    @property
    def dirty_bytes(self) -> int:
        """About how much memory the uncommitted entries take."""
        return int(len(self.dirty) * (self._payload_bytes + DIRTY_ENTRY_BYTES))

    def stage(self) -> list[ChangelogRow]:
        """Encode the uncommitted entries and return their changelog rows, one for each key.

        Until `commit` or `abort` the entries must not change. An entry that is absent and was not set gives no row.

        Raises:
            StoreMisuse: already staged.
            StoreCodecError: the codec refuses a value; nothing is staged.
        """
        if self._staged is not None:
            raise StoreMisuse(f"{self.spec.name}: stage() was called twice without commit() or abort()")
        encode = self._encode
        try:
            rows: list[ChangelogRow] = [
                {"key": key, "value": None if value is None else encode(value), "timestamp": timestamp_ms}
                for key, (value, timestamp_ms) in self.dirty.items()
                if value is not None or timestamp_ms != NO_TIMESTAMP
            ]
        except Exception as error:
            raise self._encode_error(error) from error
        self._staged = rows
        return rows

    def _encode_error(self, error: Exception) -> StoreCodecError:
        """The error to report when a value could not be encoded: finds out whose it is."""
        for key, (value, _) in self.dirty.items():
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
            StoreMisuse: not staged, or entries were loaded or set since.
            StateError: the backend failed; the store must be closed and opened again, and restores what is missing.
        """
        rows = self._staged
        if rows is None:
            raise StoreMisuse(f"{self.spec.name}: commit() without stage()")
        self._staged = None
        if rows:
            keys = list(map(_key_of, rows))
            values = list(map(_value_of, rows))
            self._measure(keys, values)
            self._unwritten.update(zip(keys, map(_stored_of, rows), strict=True))
            if None in values:
                for key, value in zip(keys, values, strict=True):
                    if value is None:
                        self.dirty[key] = [None, NO_TIMESTAMP]
        self._clean.update(self.dirty)
        self.dirty.clear()
        self._dirty_order.reset()
        if changelog_offset is not None:
            self._changelog_offset = changelog_offset
        self._shrink()

    def abort(self) -> None:
        """Drop everything uncommitted, staged or not; the store is as it was after the last commit."""
        self._staged = None
        self.dirty.clear()
        self._dirty_order.reset()

    def restore(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps_ms: Sequence[int], next_offset: int
    ) -> None:
        """Apply changelog records, in offset order; the store then stands for `next_offset`. A value of None deletes.

        Raises:
            StoreMisuse: the store has uncommitted entries.
            StateError: as `commit`.
        """
        if self.dirty or self._staged is not None:
            raise StoreMisuse(f"{self.spec.name}: restore() while entries are uncommitted")
        if self._clean:
            self._clean.clear()
        if keys:
            self._measure(keys, values)
            self._unwritten.update(zip(keys, zip(values, timestamps_ms, strict=True), strict=True))
        self._changelog_offset = next_offset
        self._shrink()

    def _measure(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Let the mean payload size follow these records, so that layers can be bounded by their number of entries."""
        total = sum(map(len, keys)) + sum(map(len, filter(None, values)))
        self._payload_bytes += (total / len(keys) - self._payload_bytes) / 2

    def _shrink(self) -> None:
        """Keep the committed layers within this store's share of memory, and the replay after a crash short."""
        half_share_bytes = self._resources.cache_share_bytes // 2
        clean = self._clean
        if len(clean) * (self._payload_bytes + CLEAN_ENTRY_BYTES) > half_share_bytes:
            # Entries come back to the end of the dict when they are committed, so the first half is the longest unused.
            for key in list(islice(clean, (len(clean) + 1) // 2)):
                del clean[key]
        if len(self._unwritten) * (self._payload_bytes + UNWRITTEN_ENTRY_BYTES) > half_share_bytes:
            self._write()
        elif (self._changelog_offset or 0) - (self._written_offset or 0) > REPLAY_RECORDS_MAX:
            self._write()
            self._backend.flush(wait=False)

    def _write(self) -> None:
        self._backend.write(self._unwritten, self._changelog_offset)
        self._written_offset = self._changelog_offset
        self._unwritten.clear()
        self._unwritten_order.reset()

    def flush(self) -> None:
        """Have the committed state survive a crash of the machine, with its changelog offset; blocks until it does."""
        self._write()
        self._backend.flush(wait=True)

    def close(self) -> None:
        """Flush, drop what is uncommitted, end open scans, and let go of files and locks. Closing twice is no error."""
        if self._closed:
            return
        self._closed = True
        self._resources.store_closed(self)
        self.abort()
        for scan in list(self._scans):
            scan.close()
        self._clean.clear()
        try:
            self._write()
        finally:
            self._backend.close()
