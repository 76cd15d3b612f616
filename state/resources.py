"""The memory that all stores of one process share, so that it is bounded however many tasks the process has."""

from __future__ import annotations

from functools import cached_property

from rocksdict import Cache, WriteBufferManager

MIB = 1024 * 1024


class StateResources:
    """One per process; every store is opened with it. Owned by the processing loop; opening is safe from one other thread.

    `cache_bytes` holds decoded entries and committed ones that are not in RocksDB yet, in equal shares for every open
    store. `block_cache_bytes` and `write_buffer_bytes` are RocksDB's, for reading and for writing.
    """

    def __init__(
        self,
        *,
        cache_bytes: int = 64 * MIB,
        block_cache_bytes: int = 64 * MIB,
        write_buffer_bytes: int = 64 * MIB,
    ) -> None:
        self.cache_bytes = cache_bytes
        self.block_cache_bytes = block_cache_bytes
        self.write_buffer_bytes = write_buffer_bytes
        self._open_stores: set[int] = set()

    @property
    def cache_share_bytes(self) -> int:
        """What one store may hold of `cache_bytes` now."""
        return self.cache_bytes // max(1, len(self._open_stores))

    def store_opened(self, store: object) -> None:
        """Count a store in. A set, since adding to one is safe from several threads."""
        self._open_stores.add(id(store))

    def store_closed(self, store: object) -> None:
        self._open_stores.discard(id(store))

    @cached_property
    def block_cache(self) -> Cache:
        """RocksDB's read cache; index and filter blocks of all stores are in it too."""
        return Cache(self.block_cache_bytes)

    @cached_property
    def write_buffers(self) -> WriteBufferManager:
        """Has the store that writes flush early once the write buffers of all stores together near their limit.

        It must not stall writers at the limit: a write holds Python's global lock, so heartbeats would stop too.
        """
        return WriteBufferManager(self.write_buffer_bytes, False)
