"""How far a group is behind its input: partition by partition, with the task and the worker that reads it.

Made of the group's committed offsets and the topics' ends. A group without members has its lag too, but nobody who reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from assignor.explain import member_names
from assignor.model import MemberId, TaskId
from kstreams_worker.group.events import GroupDescription

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One input partition. `committed` is None while nothing of it is committed: then all of it is ahead."""

    topic: str
    partition: int
    task: str | None
    member: str | None
    committed: int | None
    end: int
    lag_records: int


@dataclass(frozen=True, slots=True)
class MemberLag:
    """What the tasks of one member are behind, together."""

    member: str
    partitions: int
    lag_records: int


class Offsets(Protocol):
    """Who knows the topics; each call raises BrokerError."""

    def partition_counts(self, topics: Iterable[str]) -> Mapping[str, int]: ...
    def begin_offsets(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]: ...
    def end_offsets(self, partitions: Iterable[Partition], *, committed: bool) -> Mapping[Partition, int]: ...


def input_lags(
    group: GroupDescription, committed: Mapping[Partition, int], offsets: Offsets, *, read_committed: bool
) -> list[PartitionLag]:
    """The lag of every input partition of a group, as of now. Raises BrokerError.

    `read_committed`: as its workers read, so that records of transactions that are open are no lag yet.
    """
    topics = {topic for topic, _ in committed} | {topic for names in group_inputs(group).values() for topic in names}
    partitions = read_partitions(group, committed, offsets.partition_counts(topics))
    ends = offsets.end_offsets(partitions, committed=read_committed)
    return partition_lags(group, committed, offsets.begin_offsets(partitions), ends)


def read_partitions(
    group: GroupDescription, committed: Iterable[Partition], counts: Mapping[str, int]
) -> set[Partition]:
    """The input partitions of a group: those of its active tasks as far as they exist, and those with offsets.

    `counts` are the partitions of each topic that exists. While no leader has told which topics the tasks read, all that
    have offsets count.
    """
    inputs = group_inputs(group)
    read = {(topic, task.partition) for task in _owners(group) for topic in inputs.get(task.subtopology, ())}
    topics = {topic for names in inputs.values() for topic in names}
    read |= {partition for partition in committed if not topics or partition[0] in topics}
    return {(topic, partition) for topic, partition in read if partition < counts.get(topic, 0)}


def partition_lags(
    group: GroupDescription,
    committed: Mapping[Partition, int],
    begins: Mapping[Partition, int],
    ends: Mapping[Partition, int],
) -> list[PartitionLag]:
    """The lag of every partition that has an end, in order."""
    subtopologies = {topic: sub for sub, names in group_inputs(group).items() for topic in names}
    owners = _owners(group)
    lags = []
    for (topic, partition), end in sorted(ends.items()):
        task = TaskId(subtopologies[topic], partition) if topic in subtopologies else None
        offset = committed.get((topic, partition))
        # Records that retention has deleted will never be read.
        start = max(offset or 0, begins.get((topic, partition), 0))
        lags.append(
            PartitionLag(
                topic=topic,
                partition=partition,
                task=None if task is None else str(task),
                member=None if task is None else owners.get(task),
                committed=offset,
                end=end,
                lag_records=max(0, end - start),
            )
        )
    return lags


def member_lags(lags: Iterable[PartitionLag]) -> list[MemberLag]:
    """The same by member, those furthest behind first."""
    partitions: dict[str, list[int]] = {}
    for each in lags:
        if each.member is not None:
            partitions.setdefault(each.member, []).append(each.lag_records)
    found = [MemberLag(member, len(values), sum(values)) for member, values in partitions.items()]
    return sorted(found, key=lambda each: (-each.lag_records, each.member))


def task_lags(lags: Iterable[PartitionLag]) -> dict[str, int]:
    """Records that each task is behind, over all its inputs."""
    found: dict[str, int] = {}
    for each in lags:
        if each.task is not None:
            found[each.task] = found.get(each.task, 0) + each.lag_records
    return found


def group_inputs(group: GroupDescription) -> Mapping[int, tuple[str, ...]]:
    """The source topics of each subtopology, as the leader of the last round told them; empty if nobody did."""
    told = (member.assignment.sources for member in group.members if member.assignment is not None)
    return next((sources for sources in told if sources), {})


def _owners(group: GroupDescription) -> dict[TaskId, str]:
    said = {MemberId(each.member_id): each.subscription for each in group.members if each.subscription is not None}
    names = member_names(said)
    return {
        task: names.get(MemberId(each.member_id), each.client_id)
        for each in group.members
        if each.assignment is not None
        for task in each.assignment.active
    }
