"""A live group as an operator wants to see it: instances, their workers, and each task's owner, role and lag.

Made of what the broker knows: every member's metadata and assignment of the last round, and how far the group has
committed. So it is the same from any machine, and needs neither the topology nor a worker that answers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from assignor.model import Assignment, Subscription, TaskId
from kstreams_worker.group.events import GroupDescription, MemberDescription


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


def overview(group: GroupDescription, lags: Mapping[str, int]) -> GroupOverview:
    """Put together what the broker says. `lags` are records by task (`lag.task_lags`), as far as they are known.

    Members whose metadata cannot be read stand apart, without a process id.
    """
    members: dict[str, list[MemberDescription]] = {}
    for member in group.members:
        said = member.subscription
        members.setdefault("" if said is None else str(UUID(bytes=said.worker.instance)), []).append(member)
    instances = [_instance(process_id, of_instance, lags) for process_id, of_instance in members.items()]
    instances.sort(key=lambda line: (line.name, line.process_id))
    return GroupOverview(group.group_id, group.state, group.protocol_type, tuple(instances))


def _instance(process_id: str, members: Collection[MemberDescription], lags: Mapping[str, int]) -> InstanceLine:
    """Workers of one instance may differ in name and capacity while it is restarted with other settings."""
    said = [member.subscription for member in members if member.subscription is not None]
    return InstanceLine(
        process_id=process_id,
        name=said[-1].name if said else "unreadable",
        capacity=max((each.capacity for each in said), default=0),
        workers=tuple(sorted((_worker(member, lags) for member in members), key=lambda line: line.index)),
    )


def _worker(member: MemberDescription, lags: Mapping[str, int]) -> WorkerLine:
    said, given = member.subscription, member.assignment
    lines = []
    if given is not None:
        for task in sorted(given.active):
            state = "being learned" if task in given.being_learned else "active"
            lines.append(TaskLine(task, "active", state, lags.get(str(task))))
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
