"""Records kept in RocksDB: one database per store, one column family, no write-ahead log.

Without the log a process that is killed loses what RocksDB had not flushed; the changelog holds it, and the offset to
restore from is in the meta record, which every batch writes together with its values. One column family matters here:
its one memtable is flushed as a whole, so after any crash values and offset are of the same moment. (With the offset in
a column family of its own that needs RocksDB's atomic flush, and then `Rdict.flush`, which flushes a single family,
would tear the two apart.)

What rocksdict 0.3.29 does with Python's global lock (GIL), as measured: `Rdict.write` holds it throughout; `flush`,
`close` and background work release it; opening holds it for most of its time. Hence writes are sorted by key and the
write buffers are small, which makes a write three to five times cheaper, and a write that RocksDB would stall is
refused (`no_slowdown`) and tried again from Python, so that heartbeats go on meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    DataBlockIndexType,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from state.backend import Row
from state.errors import StateError, StateInUse, StoreDamaged, StoreDiskFull
from state.format import (
    META_KEY,
    NO_TIMESTAMP,
    RECORD_END,
    RECORD_TAG,
    TIMESTAMP,
    TIMESTAMP_BYTES,
    StoreFormat,
    StoreMeta,
    decode_meta,
    encode_meta,
)
from state.offset_hint import remove_offset_hint, write_offset_hint
from state.resources import MIB, StateResources

WRITE_BUFFER_BYTES = 8 * MIB
"""Of one store. Small, because inserting into a memtable is bound by cache misses: 64 MiB made writes four times dearer."""
WRITE_BUFFERS_MAX = 6
"""Of one store: room for a restore to run ahead of the flushing thread."""
OPEN_FILES_MAX = 64
"""Of one store; RocksDB opens others on demand. A process with 100 stores stays within 6 400."""
BLOCK_BYTES = 4096
BLOOM_BITS_PER_KEY = 10
HASH_INDEX_LOAD = 0.75
"""Of the hash table in each block that spares a look-up its binary search, for about a byte per key."""
MEMTABLE_BLOOM_SHARE = 0.02
"""Of a write buffer: 37 bits for a key of 200 bytes. Most keys that are looked up are not in the few buffers."""
BACKGROUND_JOBS = 2
"""RocksDB's threads are shared by all databases of a process: one flushes, one compacts."""
LOG_FILES_KEPT = 1
LOG_FILE_BYTES = MIB
_STALL_SIGNS = ("rocksdb.is-write-stopped", "rocksdb.actual-delayed-write-rate")
STALL_PAUSE_S = 0.005
STALL_LIMIT_S = 60.0
"""A write that RocksDB still refuses after this long means that the disk cannot keep up at all."""


_key_of = itemgetter(0)


def _options(resources: StateResources) -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(resources.block_cache)
    table.set_block_size(BLOCK_BYTES)
    table.set_bloom_filter(BLOOM_BITS_PER_KEY, False)
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    # In parts: the cache is made of shards of a MiB or less, and what is larger than its shard is read from the file each
    # time. The filter of a file with a million keys is, which made a look-up take half a millisecond.
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_pin_top_level_index_and_filter(True)
    table.set_format_version(5)
    table.set_data_block_index_type(DataBlockIndexType.binary_and_hash())
    table.set_data_block_hash_ratio(HASH_INDEX_LOAD)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_memtable_whole_key_filtering(True)
    options.set_memtable_prefix_bloom_ratio(MEMTABLE_BLOOM_SHARE)
    options.set_max_write_buffer_number(WRITE_BUFFERS_MAX)
    options.set_write_buffer_manager(resources.write_buffers)
    options.set_max_open_files(OPEN_FILES_MAX)
    options.set_max_background_jobs(BACKGROUND_JOBS)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_keep_log_file_num(LOG_FILES_KEPT)
    options.set_max_log_file_size(LOG_FILE_BYTES)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options


class RocksBackend:
    """One open RocksDB. Owned by one thread at a time.

    Raises, from every method: StoreDamaged, StoreDiskFull, StateInUse or another StateError that names the directory.
    """

    def __init__(self, path: Path, resources: StateResources, new_format: StoreFormat) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write_options = WriteOptions()
        self._write_options.disable_wal = True
        self._write_options.no_slowdown = True
        try:
            remove_offset_hint(path)
            self._db = Rdict(str(path), _options(resources))
        except Exception as error:
            raise translate(error, path, opening=True) from error
        self._get = self._db.get
        try:
            self._meta = self._read_meta(new_format)
        except Exception as error:
            self._release()
            if isinstance(error, StateError):
                raise
            raise translate(error, path, opening=True) from error

    def _read_meta(self, new_format: StoreFormat) -> StoreMeta:
        data = self._db.get(META_KEY)
        if data is None:
            return StoreMeta(new_format, None)
        return decode_meta(data, self.path)

    @property
    def format(self) -> StoreFormat:
        return self._meta.format

    @property
    def changelog_offset(self) -> int | None:
        return self._meta.changelog_offset

    def get(self, key: bytes) -> tuple[bytes, int] | None:
        try:
            data = self._get(RECORD_TAG + key)
        except Exception as error:
            raise translate(error, self.path) from error
        return None if data is None else self._record(data)

    def get_many(self, keys: Sequence[bytes]) -> list[tuple[bytes, int] | None]:
        tag, record = RECORD_TAG, self._record
        try:
            found = self._get([tag + key for key in keys])
        except Exception as error:
            raise translate(error, self.path) from error
        return [None if data is None else record(data) for data in found]

    def _record(self, data: bytes) -> tuple[bytes, int]:
        if self._meta.format is StoreFormat.PLAIN:
            return data, NO_TIMESTAMP
        return data[TIMESTAMP_BYTES:], TIMESTAMP.unpack_from(data)[0]

    def write(self, rows: Sequence[Row], changelog_offset: int | None) -> None:
        if changelog_offset is None:
            changelog_offset = self._meta.changelog_offset
        meta = StoreMeta(self._meta.format, changelog_offset)
        deadline = time.monotonic() + STALL_LIMIT_S
        while True:
            # A batch is used up even by a write that is refused, so it is built anew each time.
            batch = self._batch(rows, meta)
            try:
                self._db.write(batch, self._write_options)
            except Exception as error:
                if "Write stall" not in str(error) or time.monotonic() > deadline:
                    raise translate(error, self.path) from error
                self._await_room(deadline)
            else:
                self._meta = meta
                return

    def _await_room(self, deadline: float) -> None:
        """Wait while RocksDB holds writers back, letting other threads run."""
        delayed = True
        while delayed and time.monotonic() < deadline:
            time.sleep(STALL_PAUSE_S)
            delayed = any(self._db.property_int_value(name) for name in _STALL_SIGNS)

    def _batch(self, rows: Sequence[Row], meta: StoreMeta) -> WriteBatch:
        batch = WriteBatch(raw_mode=True)
        put = batch.put
        delete = batch.delete
        tag = RECORD_TAG
        ordered = sorted(rows, key=_key_of)  # stable: of a key's rows the last stays last
        if meta.format is StoreFormat.PLAIN:
            for key, value, _ in ordered:
                if value is None:
                    delete(tag + key)
                else:
                    put(tag + key, value)
        else:
            pack = TIMESTAMP.pack
            for key, value, timestamp_ms in ordered:
                if value is None:
                    delete(tag + key)
                else:
                    put(tag + key, pack(timestamp_ms) + value)
        put(META_KEY, encode_meta(meta))
        return batch

    def scan(self, start: bytes | None, end: bytes | None, *, backwards: bool) -> Iterator[tuple[bytes, bytes, int]]:
        lower = RECORD_TAG if start is None else RECORD_TAG + start
        upper = RECORD_END if end is None else RECORD_TAG + end
        if lower >= upper:
            return
        # Two ways of rocksdict 0.3.29 matter here: of an iterator's bounds it heeds only the upper one, and `items()` just
        # ends at a damaged block, where an explicit iterator's status() tells.
        options = ReadOptions()
        options.set_iterate_upper_bound(upper)
        rows = self._db.iter(options)
        step = rows.prev if backwards else rows.next
        plain = self._meta.format is StoreFormat.PLAIN
        unpack = TIMESTAMP.unpack_from
        try:
            if backwards:
                rows.seek_to_last()
            else:
                rows.seek(lower)
            while rows.valid():
                key = rows.key()
                if key < lower:
                    return
                data = rows.value()
                if plain:
                    yield key[1:], data, NO_TIMESTAMP
                else:
                    yield key[1:], data[TIMESTAMP_BYTES:], unpack(data)[0]
                step()
            rows.status()
        except Exception as error:
            raise translate(error, self.path) from error
        finally:
            del rows, step  # they keep the database open, and this frame may live on in an error's traceback

    def approximate_num_entries(self) -> int:
        return int(self._db.property_int_value("rocksdb.estimate-num-keys") or 0)

    def flush(self, *, wait: bool) -> None:
        try:
            self._db.flush(wait)
        except Exception as error:
            raise translate(error, self.path) from error

    def close(self) -> None:
        try:
            self.flush(wait=True)
        finally:
            self._release()
        write_offset_hint(self.path, self._meta.changelog_offset)

    def _release(self) -> None:
        # The bound method keeps the database, and with it the lock, as an open iterator or handle would.
        self._get = _closed
        try:
            self._db.close()
        except Exception as error:
            raise translate(error, self.path) from error


def _closed(_key: bytes) -> Any:
    raise StateError("the store is closed")


def read_changelog_offset(path: Path) -> int | None:
    """The offset of a store that nobody has open, read without changing it; None if it cannot be read or has none."""
    try:
        database = Rdict(str(path), Options(raw_mode=True), access_type=AccessType.read_only())
    except Exception:  # damaged, or not a database: whoever opens it for use will say so
        return None
    try:
        data = database.get(META_KEY)
        return None if data is None else decode_meta(data, path).changelog_offset
    except Exception:
        return None
    finally:
        database.close()


_DAMAGE = ("Corruption", "No such file or directory", "CURRENT file", "does not exist", "checksum mismatch")


def translate(error: Exception, path: Path, *, opening: bool = False) -> StateError:
    """The error to report for one that RocksDB gave; rocksdict raises all of them as plain Exceptions with a text."""
    text = " ".join(str(error).split())
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return StoreDiskFull(
            "the disk is full; free some space or move state.dir to a larger disk, then start again: "
            f"the changelog holds everything that was committed ({text})",
            path,
        )
    if "lock" in text.lower() and opening and "IO error" in text:
        return StateInUse(f"another process has this store open; stop it, or use another state.dir ({text})", path)
    if "Corruption" in text or (opening and any(sign in text for sign in _DAMAGE)):
        return StoreDamaged(
            f"the store's files are damaged; set the directory aside to have it restored from its changelog ({text})",
            path,
        )
    if "Write stall" in text:
        return StateError("the disk cannot keep up with the store's writes; move state.dir to a faster disk", path)
    if "Too many open files" in text:
        return StateError(
            f"the process may not open more files; raise its limit (ulimit -n) above 64 per store ({text})", path
        )
    return StateError(f"RocksDB failed; check the disk and the directory's permissions ({text})", path)
