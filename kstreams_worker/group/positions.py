"""Where a stopped group is to begin again, in the words of Kafka's own tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ToEarliest:
    """The first record that is still there."""


@dataclass(frozen=True, slots=True)
class ToLatest:
    """After the last record."""


@dataclass(frozen=True, slots=True)
class ToTime:
    """The first record of this time (ms of the epoch) or later; the end where there is none."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """So many records on from what is committed, or back if negative; from the beginning where nothing is."""

    records: int


Position = ToEarliest | ToLatest | ToTime | ShiftBy


def new_offsets(
    position: Position,
    partitions: Iterable[Partition],
    *,
    committed: Mapping[Partition, int],
    begins: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    at_time: Mapping[Partition, int],
) -> dict[Partition, int]:
    """The offset of each partition, never outside of what is there. `at_time` are offsets found for `ToTime`."""

    def wanted(partition: Partition) -> int:
        match position:
            case ToEarliest():
                return begins[partition]
            case ToLatest():
                return ends[partition]
            case ToTime():
                return at_time.get(partition, ends[partition])
            case ShiftBy(records):
                return committed.get(partition, begins[partition]) + records

    return {each: min(max(wanted(each), begins[each]), ends[each]) for each in sorted(partitions)}
