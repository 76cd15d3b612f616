"""What a store needs from the place that keeps its committed records: RocksDB, or memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from state.format import StoreFormat

Row = tuple[bytes, bytes | None, int]
"""One record of a changelog: key, value (encoded by the store's codec; None deletes the key), timestamp in milliseconds."""


class Backend(Protocol):
    """Keeps committed records and the changelog offset that they stand for. Owned by one thread at a time."""

    @property
    def format(self) -> StoreFormat:
        """How values are kept."""

    @property
    def changelog_offset(self) -> int | None:
        """The next changelog offset to restore from, as last written; None before the first write."""

    def get(self, key: bytes) -> tuple[bytes, int] | None:
        """`(value, timestamp_ms)`, or None when the key is absent."""

    def get_many(self, keys: Sequence[bytes]) -> list[tuple[bytes, int] | None]:
        """What `get` gives for each of the keys, for less than as many calls would cost."""

    def write(self, rows: Sequence[Row], changelog_offset: int | None) -> None:
        """Apply the rows and the offset in one step: either both are kept, or neither. Of a key's rows the last counts."""

    def scan(self, start: bytes | None, end: bytes | None, *, backwards: bool) -> Iterator[tuple[bytes, bytes, int]]:
        """`(key, value, timestamp_ms)` in key order, of keys from `start` up to, not including, `end`.

        Sees the records as they were when the scan began. Must be closed (or run out) before the backend is.
        """

    def approximate_num_entries(self) -> int:
        """About how many keys are kept."""

    def flush(self, *, wait: bool) -> None:
        """Have everything written so far survive a crash of the machine; without `wait` only begin to."""

    def close(self) -> None:
        """Flush and let go of all files and locks. The backend is unusable afterwards."""
