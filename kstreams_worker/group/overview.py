"""A live group as an operator wants to see it: instances, their workers, and each task's owner, role and lag.

Made of what the broker knows: every member's metadata of the last round, the leader's assignment, and the group's committed
offsets. So it is the same from any machine, and needs neither the topology nor a worker that answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from assignor.model import Assignment, Subscription, TaskId
from kstreams_worker.group.events import GroupDescription, MemberDescription
from kstreams_worker.group.lag import group_inputs

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One task on one worker. `lag_records` of an active task is that of its input now, of a copy that of the last round."""

    task: TaskId
    role: str
    state: str
    lag_records: int | None


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """One member of the group."""

    member_id: str
    index: int
    client_host: str
    is_leader: bool
    leaving: bool
    tasks: tuple[TaskLine, ...]


@dataclass(frozen=True, slots=True)
class InstanceLine:
    """The workers of one instance."""

    process_id: str
    name: str
    capacity: int
    workers: tuple[WorkerLine, ...]


@dataclass(frozen=True, slots=True)
class GroupOverview:
    """The whole group. `state` is the broker's word for it."""

    group_id: str
    state: str
    protocol_type: str
    instances: tuple[InstanceLine, ...]


def overview(
    group: GroupDescription, committed: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> GroupOverview:
    """Put together what the broker says. Members whose metadata cannot be read stand apart, without tasks."""
    sources = group_inputs(group)
    workers: dict[tuple[str, str, int], list[WorkerLine]] = {}
    for member in group.members:
        said = member.subscription
        key = (
            ("", "unreadable", 0) if said is None else (str(UUID(bytes=said.worker.instance)), said.name, said.capacity)
        )
        workers.setdefault(key, []).append(_worker(member, sources, committed, ends))
    instances = tuple(
        InstanceLine(process_id, name, capacity, tuple(sorted(lines, key=lambda line: line.index)))
        for (process_id, name, capacity), lines in sorted(workers.items(), key=lambda item: (item[0][1], item[0][0]))
    )
    return GroupOverview(group.group_id, group.state, group.protocol_type, instances)


def input_partitions(group: GroupDescription, committed: Iterable[Partition]) -> set[Partition]:
    """The input partitions of all tasks that are active somewhere, and those that have offsets."""
    sources = group_inputs(group)
    topics = {topic for names in sources.values() for topic in names}
    return {partition for partition in committed if partition[0] in topics}


def _worker(
    member: MemberDescription,
    sources: Mapping[int, tuple[str, ...]],
    committed: Mapping[Partition, int],
    ends: Mapping[Partition, int],
) -> WorkerLine:
    said, given = member.subscription, member.assignment
    lines = []
    if given is not None:
        for task in sorted(given.active):
            state = "being learned" if task in given.being_learned else "active"
            lines.append(TaskLine(task, "active", state, _input_lag(task, sources, committed, ends)))
        for role, tasks in (("learner", given.learners), ("standby", given.standbys)):
            lines += [_copy_line(task, role, said) for task in sorted(tasks)]
    return WorkerLine(
        member_id=member.member_id,
        index=-1 if said is None else said.worker.index,
        client_host=member.client_host.lstrip("/"),
        is_leader=_leads(given),
        leaving=said is not None and said.leaving,
        tasks=tuple(lines),
    )


def _leads(given: Assignment | None) -> bool:
    return given is not None and bool(given.sources)


def _copy_line(task: TaskId, role: str, said: Subscription | None) -> TaskLine:
    copies = {} if said is None else {**said.standbys, **said.learners}
    copy = copies.get(task)
    if copy is None:
        return TaskLine(task, role, "new", None)
    return TaskLine(task, role, "ready" if copy.ready else "restoring", copy.lag)


def _input_lag(
    task: TaskId,
    sources: Mapping[int, tuple[str, ...]],
    committed: Mapping[Partition, int],
    ends: Mapping[Partition, int],
) -> int | None:
    inputs = [(topic, task.partition) for topic in sources.get(task.subtopology, ())]
    known = [partition for partition in inputs if partition in ends]
    if not known:
        return None
    return sum(max(0, ends[partition] - committed.get(partition, 0)) for partition in known)
