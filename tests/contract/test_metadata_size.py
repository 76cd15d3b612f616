"""The metadata of the largest group we promise fits the broker: its group record holds at most about 1 MB."""

from __future__ import annotations

import random
from dataclasses import replace

from assignor.assign import assign
from assignor.model import (
    AssignorSettings,
    CopyState,
    GroupSnapshot,
    InstanceId,
    LagRecords,
    MemberId,
    Subscription,
    TaskId,
    WorkerId,
)
from assignor.wire import encode_assignment, encode_subscription

KIB = 1024


def test_a_thousand_workers_with_ten_thousand_tasks_and_a_standby_each_fit_a_quarter() -> None:
    """All subscriptions and all assignments of a round together, with names, endpoints and lags of real size."""
    chance = random.Random(11)
    members = {
        MemberId(f"worker-{number}"): Subscription(
            WorkerId(InstanceId(chance.randbytes(16)), number % 4),
            chance.randbytes(8),
            capacity=4,
            name=f"orders-enrichment-{number}",
            endpoint=f"10.{number >> 8}.{number & 255}.17:8080",
        )
        for number in range(1000)
    }
    topology = next(iter(members.values())).topology
    members = {member: replace(said, topology=topology) for member, said in members.items()}
    tasks = {TaskId(subtopology, partition): True for subtopology in range(4) for partition in range(2500)}
    first = assign(GroupSnapshot(members, tasks, AssignorSettings(num_standby_tasks=1)))
    members = {
        member: replace(
            said,
            active=first.assignments[member].active,
            standbys={
                task: CopyState(LagRecords(chance.randrange(20_000))) for task in first.assignments[member].standbys
            },
        )
        for member, said in members.items()
    }
    second = assign(GroupSnapshot(members, tasks, AssignorSettings(num_standby_tasks=1), first.memory))
    assert sum(len(given.active) + len(given.standbys) for given in second.assignments.values()) == 20_000
    asked = sum(len(encode_subscription(said)) for said in members.values())
    told = sum(len(encode_assignment(given)) for given in second.assignments.values())
    assert asked + told <= 256 * KIB
