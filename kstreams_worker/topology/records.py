"""A batch of records of one topic partition, in columns: what the consumer hands to a task's compiled chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Partition = tuple[str, int]
"""Topic and partition number."""
Headers = list[tuple[str, bytes]]


@dataclass(slots=True)
class RecordBatch:
    """Parallel columns, in offset order. Keys and values are still serialized; timestamps are milliseconds of the epoch."""

    topic: str
    partition: int
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps_ms: Sequence[int]
    offsets: Sequence[int]
    headers: Callable[[int], Headers] | None = None
    """The headers of the record at an index; fetched only where something asks for them."""

    def __len__(self) -> int:
        return len(self.values)


OutputRow = tuple[bytes | None, bytes | None, int]
"""One record to produce: key, value, timestamp in milliseconds. A plain tuple, since there is one for every output."""
