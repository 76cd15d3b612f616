"""Sets of tasks, and copies of tasks with their lag, as few bytes and with few steps per task.

    TaskSet := varint groups, groups x Group               subtopologies ascending
    Group   := varint subtopology (from the second group on: difference to the one before),
               varint count << 2 | width, count x gap      width 0, 1, 2: gaps of 1, 2, 4 bytes, little-endian
    Copies  := TaskSet, byte form, [lags], [ready bits]    nothing after the TaskSet if that is empty
    form    := lag code (0: all are zero; 1, 2, 3, 4: 1, 2, 4, 8 bytes each) | ready code << 3 (0: none, 1: all, 2: bits)

The first gap of a group is its lowest partition, each following one the (positive) distance to the next partition. So a
set has one form only, no task can stand in it twice, and every task costs at least one byte: a count is checked
against the bytes left before anything is built. Runs of partitions are long runs of ones, which compression removes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import accumulate, groupby, repeat
from operator import itemgetter, sub

from assignor.model import CopyState, LagRecords, TaskId
from assignor.wire.errors import MetadataError
from assignor.wire.reader import Reader, number_bytes, number_width_bytes, varint_bytes

PARTITION_MAX = 2**31 - 1
"""Kafka numbers partitions (and Kafka Streams subtopologies) with signed 32 bits."""

_NEW = tuple.__new__
"""Makes named tuples several times faster than calling their class; large groups have tens of thousands."""

POOLED_PARTITIONS_MAX = 1 << 14
POOLED_SUBTOPOLOGIES_MAX = 1 << 4
POOLED_LAG_MAX = 1 << 12
"""Up to here decoded values are shared: members of a group name the same tasks again and again, in every round, and
most copies are hardly behind. That halves the time of decoding, most of which is making objects and collecting them."""

_LAG_WIDTH_BYTES = (0, 1, 2, 4, 8)
_READY_NONE, _READY_ALL, _READY_BITS = 0, 1, 2


def write_tasks(tasks: Collection[TaskId]) -> bytes:
    """A set of tasks. Raises MetadataError for a negative or too large subtopology or partition."""
    if not tasks:
        return b"\0"
    return _write_sorted(sorted(tasks))


def _write_sorted(ordered: list[TaskId]) -> bytes:
    first, last = ordered[0][0], ordered[-1][0]
    if first == last:
        return b"\x01" + _group(first, first, [partition for _, partition in ordered])
    if first < 0:
        raise MetadataError(f"subtopology {first} is negative")
    out = []
    before = 0
    for subtopology, group in groupby(ordered, itemgetter(0)):
        out.append(_group(subtopology, subtopology - before, [partition for _, partition in group]))
        before = subtopology
    return varint_bytes(len(out)) + b"".join(out)


def _group(subtopology: int, step: int, partitions: list[int]) -> bytes:
    if partitions[0] < 0 or partitions[-1] > PARTITION_MAX or not 0 <= subtopology <= PARTITION_MAX:
        raise MetadataError(f"tasks {subtopology}_{partitions[0]} to {subtopology}_{partitions[-1]} are out of range")
    gaps = [partitions[0], *map(sub, partitions[1:], partitions)]
    width_bytes = number_width_bytes(max(gaps))
    head = len(gaps) << 2 | (width_bytes >> 1)
    return varint_bytes(step) + varint_bytes(head) + number_bytes(gaps, width_bytes)


def read_tasks(reader: Reader) -> list[TaskId]:
    """The tasks of a set, ascending. Raises MetadataError for anything that `write_tasks` does not write."""
    tasks: list[TaskId] = []
    if reader.skip_zero():
        return tasks
    subtopology = 0
    for index in range(reader.count(bytes_each=3)):
        step = reader.varint()
        subtopology += step
        if subtopology > PARTITION_MAX or (index and not step):
            raise reader.fail(f"bad subtopology {subtopology}")
        head = reader.varint()
        count, width = head >> 2, head & 3
        if width == 3 or not count:
            raise reader.fail("bad head of a task group")
        if count << width > reader.left_bytes():
            raise reader.fail(f"{count} tasks announced, {reader.left_bytes()} bytes left")
        gaps = reader.numbers(count, 1 << width)
        if 0 in gaps[1:]:
            raise reader.fail("task given twice")
        partitions = list(accumulate(gaps))
        if partitions[-1] > PARTITION_MAX:
            raise reader.fail(f"bad partition {partitions[-1]}")
        if subtopology < POOLED_SUBTOPOLOGIES_MAX and partitions[-1] < POOLED_PARTITIONS_MAX:
            tasks.extend(map(_TASKS[subtopology].__getitem__, partitions))
        else:
            tasks.extend(map(_NEW, repeat(TaskId), zip(repeat(subtopology), partitions, strict=False)))
    return tasks


def write_copies(copies: Mapping[TaskId, CopyState]) -> bytes:
    """Copies of tasks, each with its lag and readiness. Raises MetadataError for a negative lag."""
    if not copies:
        return b"\0"
    ordered = sorted(copies)
    states = [copies[task] for task in ordered]
    lags: list[int] = [state.lag for state in states]
    if min(lags) < 0:
        raise MetadataError(f"negative lag {min(lags)}")
    largest = max(lags)
    lag_width_bytes = number_width_bytes(largest) if largest else 0
    ready = sum(1 for state in states if state.ready)
    form = _LAG_WIDTH_BYTES.index(lag_width_bytes)
    out = [_write_sorted(ordered), b"", number_bytes(lags, lag_width_bytes) if largest else b""]
    if ready == len(states):
        form |= _READY_ALL << 3
    elif ready:
        form |= _READY_BITS << 3
        bits = sum(1 << index for index, state in enumerate(states) if state.ready)
        out.append(bits.to_bytes((len(states) + 7) // 8, "little"))
    out[1] = bytes((form,))
    return b"".join(out)


def read_copies(reader: Reader) -> dict[TaskId, CopyState]:
    """Copies of tasks. Raises MetadataError for anything that `write_copies` does not write."""
    tasks = read_tasks(reader)
    if not tasks:
        return {}
    form = reader.byte()
    lag_code, ready_code = form & 7, form >> 3
    if lag_code >= len(_LAG_WIDTH_BYTES) or ready_code > _READY_BITS:
        raise reader.fail(f"bad form {form} of task copies")
    count = len(tasks)
    if lag_code == 0 and ready_code != _READY_BITS:
        return dict.fromkeys(tasks, CopyState(LagRecords(0), ready_code == _READY_ALL))
    lags = reader.numbers(count, _LAG_WIDTH_BYTES[lag_code]) if lag_code else bytes(count)
    if ready_code == _READY_BITS:
        bits = int.from_bytes(reader.raw((count + 7) // 8), "little")
        ready = [bool(bits >> index & 1) for index in range(count)]
    else:
        ready = [ready_code == _READY_ALL] * count
    if ready_code != _READY_BITS and max(lags) < POOLED_LAG_MAX:
        return dict(zip(tasks, map(_STATES[ready_code].__getitem__, lags), strict=True))
    return dict(zip(tasks, map(_NEW, repeat(CopyState), zip(lags, ready, strict=True)), strict=True))


class _Tasks(dict[int, TaskId]):
    """Tasks of one subtopology by partition, made when first asked for."""

    def __init__(self, subtopology: int) -> None:
        self.subtopology = subtopology

    def __missing__(self, partition: int) -> TaskId:
        task = self[partition] = TaskId(self.subtopology, partition)
        return task


class _States(dict[int, CopyState]):
    """States of copies by lag, made when first asked for."""

    def __init__(self, ready: bool) -> None:
        self.ready = ready

    def __missing__(self, lag: int) -> CopyState:
        state = self[lag] = CopyState(LagRecords(lag), self.ready)
        return state


_TASKS = [_Tasks(subtopology) for subtopology in range(POOLED_SUBTOPOLOGIES_MAX)]
_STATES = (_States(False), _States(True))
