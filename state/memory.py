"""Records kept in memory: for stores that are declared so, and for driving a topology without a disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from state.backend import Row
from state.format import StoreFormat
from state.key_order import KeyOrder


class MemoryBackend:
    """A dict behind the backend's interface. Nothing survives the process, so a restore starts at the beginning."""

    def __init__(self) -> None:
        self._records: dict[bytes, tuple[bytes, int]] = {}
        self._order = KeyOrder(self._records)
        self._changelog_offset: int | None = None

    @property
    def format(self) -> StoreFormat:
        return StoreFormat.TIMESTAMPED

    @property
    def changelog_offset(self) -> int | None:
        return self._changelog_offset

    def get(self, key: bytes) -> tuple[bytes, int] | None:
        return self._records.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[tuple[bytes, int] | None]:
        return list(map(self._records.get, keys))

    def write(self, rows: Sequence[Row], changelog_offset: int | None) -> None:
        kept = self._records
        removed = False
        for key, value, timestamp_ms in rows:
            if value is not None:
                kept[key] = (value, timestamp_ms)
            elif kept.pop(key, None) is not None:
                removed = True
        if removed:
            self._order.reset()
        if changelog_offset is not None:
            self._changelog_offset = changelog_offset

    def scan(self, start: bytes | None, end: bytes | None, *, backwards: bool) -> Iterator[tuple[bytes, bytes, int]]:
        keys = self._order.between(start, end)
        records = self._records
        found = [(key, *records[key]) for key in keys]
        return reversed(found) if backwards else iter(found)

    def approximate_num_entries(self) -> int:
        return len(self._records)

    def flush(self, *, wait: bool) -> None:
        """Nothing to do: memory is all there is."""

    def close(self) -> None:
        self._records = {}
        self._order = KeyOrder(self._records)
