"""Short ways to write snapshots: `tasks(0, 1)`, `said("A", active=tasks(0, 1))`, `snapshot({...})`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from assignor.model import (
    Assignment,
    AssignorSettings,
    CopyState,
    GroupSnapshot,
    InstanceId,
    LagRecords,
    LeaderMemory,
    MemberId,
    RoundResult,
    Subscription,
    TaskId,
    WorkerId,
)

TOPOLOGY = b"topology"


def instance(name: str) -> InstanceId:
    return InstanceId(name.encode().ljust(16, b"\0"))


def worker(name: str, index: int = 0) -> WorkerId:
    return WorkerId(instance(name), index)


def tasks(*partitions: int, subtopology: int = 0) -> frozenset[TaskId]:
    return frozenset(TaskId(subtopology, partition) for partition in partitions)


def copies(lags: Mapping[int, int], *, ready: bool = False) -> dict[TaskId, CopyState]:
    """Copies by partition and lag."""
    return {TaskId(0, partition): CopyState(LagRecords(lag), ready) for partition, lag in lags.items()}


def said(name: str, index: int = 0, **fields: Any) -> Subscription:
    """What a worker of an instance says."""
    return Subscription(worker(name, index), fields.pop("topology", TOPOLOGY), name=name, **fields)


def snapshot(
    members: Mapping[str, Subscription],
    stateful: Iterable[TaskId] = (),
    stateless: Iterable[TaskId] = (),
    *,
    standbys: int = 0,
    imbalance: float = 0.2,
    memory: LeaderMemory | None = None,
    now_ms: int = 0,
    topology: bytes = b"",
) -> GroupSnapshot:
    """A round's input."""
    return GroupSnapshot(
        {MemberId(name): each for name, each in members.items()},
        dict.fromkeys(stateful, True) | dict.fromkeys(stateless, False),
        AssignorSettings(standbys, imbalance),
        memory or LeaderMemory(),
        now_ms,
        topology,
    )


def given(result: RoundResult, name: str) -> Assignment:
    """What one member was told."""
    return result.assignments[MemberId(name)]


def loads(result: RoundResult) -> dict[str, int]:
    """Active tasks of each member."""
    return {str(member): len(each.active) for member, each in sorted(result.assignments.items())}
