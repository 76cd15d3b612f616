"""Arbitrary snapshots: also such as no group of well-behaved members would ever show.

Made from a seed by an ordinary generator, since building them from strategies takes fifty times as long as assigning them.
A failing test prints its seed; small snapshots are the most frequent ones.
"""

from __future__ import annotations

import random

from hypothesis import strategies as st

from assignor.model import (
    AssignorSettings,
    CopyState,
    GroupSnapshot,
    InstanceId,
    LagRecords,
    LeaderMemory,
    MemberId,
    Subscription,
    TaskId,
    WorkerId,
)

TOPOLOGIES = (b"topology", b"another.")
seeds = st.integers(0, 2**32 - 1)


def random_snapshot(seed: int, *, topologies: int = 1) -> GroupSnapshot:
    """Members that contradict each other, a memory that may be wrong, tasks that not all members know."""
    dice = random.Random(seed)
    size = dice.choice((1, 2, 3, 6))
    universe = [TaskId(subtopology, partition) for subtopology in range(3) for partition in range(size)]
    members = {
        MemberId(f"m{index}"): _subscription(dice, universe, dice.choice(TOPOLOGIES[:topologies]))
        for index in range(dice.randint(1, dice.choice((2, 4, 7))))
    }
    known = dice.sample(universe, dice.randint(0, len(universe)))
    some = list(members)
    memory = LeaderMemory(
        participants={
            member: _worker(dice) for member in dice.sample([*some, MemberId("gone")], dice.randint(0, len(some)))
        },
        owners={task: _worker(dice) for task in dice.sample(universe, dice.randint(0, len(universe)))},
        leaving_deadlines_ms={member: dice.randint(0, 100) for member in dice.sample(some, dice.randint(0, len(some)))},
    )
    return GroupSnapshot(
        members=members,
        tasks={task: dice.random() < 0.7 for task in known},
        settings=AssignorSettings(dice.choice((0, 0, 1, 2, 3)), dice.choice((0.0, 0.2, 1.0))),
        memory=memory if dice.random() < 0.7 else LeaderMemory(),
        now_ms=50,
        topology=dice.choice((b"", TOPOLOGIES[0])),
    )


def shuffled(snapshot: GroupSnapshot, seed: int) -> GroupSnapshot:
    """The same snapshot with everything in another order."""
    dice = random.Random(seed)

    def mixed(mapping: dict) -> dict:
        items = list(mapping.items())
        dice.shuffle(items)
        return dict(items)

    memory = snapshot.memory
    return GroupSnapshot(
        mixed(snapshot.members),
        mixed(snapshot.tasks),
        snapshot.settings,
        LeaderMemory(mixed(memory.participants), mixed(memory.owners), mixed(memory.leaving_deadlines_ms)),
        snapshot.now_ms,
        snapshot.topology,
    )


def _worker(dice: random.Random) -> WorkerId:
    return WorkerId(InstanceId(dice.randint(0, 4).to_bytes(16, "big")), dice.randint(0, 2))


def _subscription(dice: random.Random, universe: list[TaskId], topology: bytes) -> Subscription:
    """What one member says, free of contradictions within itself."""
    roles: list[list[TaskId]] = [[] for _ in range(7)]
    weights = dice.choice(((3, 1, 1, 1, 1, 5, 9), (1, 2, 2, 0, 2, 1, 3), (1, 0, 0, 0, 0, 0, 0), (1, 0, 1, 6, 1, 0, 3)))
    for task in universe:
        roles[dice.choices(range(7), weights)[0]].append(task)
    active, suspended, learners, standbys, dormant = roles[:5]
    leaving = dice.random() < 0.25

    def copies(tasks: list[TaskId]) -> dict[TaskId, CopyState]:
        return {task: CopyState(LagRecords(dice.randint(0, 20)), dice.random() < 0.5) for task in tasks}

    return Subscription(
        worker=_worker(dice),
        topology=topology,
        capacity=dice.randint(1, 4),
        active=frozenset(active),
        suspended=frozenset(suspended),
        learners=copies(learners),
        standbys=copies(standbys),
        dormant=copies(dormant),
        leaving=leaving,
        leave_timeout_ms=dice.choice((None, 0, 5000)) if leaving else None,
    )
