"""How long a leader computes: decode all subscriptions, assign, encode all assignments. Run it alone on the machine.

python -m benchmarks.bench_assignor [--repetitions N]

Each group is taken through five rounds: `start` (nobody has anything), `steady` (all as before), `a death` (one instance
gone), `a tenth more` (newcomers to be given learners) and `a fifth leaves`. Times are CPU time, the best of the
repetitions, in ms; sizes are all subscriptions and assignments of the round together.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from dataclasses import replace

from assignor.assign import assign
from assignor.model import (
    AssignorSettings,
    CopyState,
    GroupSnapshot,
    InstanceId,
    LagRecords,
    MemberId,
    RoundResult,
    Subscription,
    TaskId,
    WorkerId,
)
from assignor.wire import decode_assignment, decode_subscription, encode_assignment, encode_subscription

GROUPS = {
    "1 000 instances, 1 000 tasks": (1000, 1, 1000, 0),
    "2 instances, 6 000 tasks": (2, 1, 6000, 0),
    "100 instances, 1 000 tasks, 50 standbys": (100, 1, 1000, 50),
    "1 000 instances, 10 000 tasks, 1 standby": (1000, 1, 10_000, 1),
    "100 instances of 10 workers, 10 000 tasks, 1 standby": (100, 10, 10_000, 1),
}
"""Instances, workers on each, tasks, standbys."""

CHANCE = random.Random(7)


def workers(instances: range, each: int) -> dict[MemberId, Subscription]:
    """Members with nothing, named as a deployment would name them."""
    return {
        MemberId(f"orders-{number}-{index}-{CHANCE.randbytes(16).hex()}"): Subscription(
            WorkerId(InstanceId(number.to_bytes(16, "big")), index),
            b"12345678",
            capacity=each,
            name=f"orders-{number}",
            endpoint=f"10.0.{number >> 8}.{number & 255}:8080",
        )
        for number in instances
        for index in range(each)
    }


def empty_group(instances: int, each: int, tasks: int, standbys: int) -> GroupSnapshot:
    """A group that has just started."""
    return GroupSnapshot(
        workers(range(instances), each),
        {TaskId(0, partition): True for partition in range(tasks)},
        AssignorSettings(num_standby_tasks=standbys),
    )


def after(group: GroupSnapshot, result: RoundResult) -> GroupSnapshot:
    """The group once it has followed an assignment; copies lag a little."""

    def copies(tasks: frozenset[TaskId]) -> dict[TaskId, CopyState]:
        return {task: CopyState(LagRecords(CHANCE.randrange(3000))) for task in tasks}

    members = {
        member: replace(
            said,
            active=result.assignments[member].active,
            learners=copies(result.assignments[member].learners),
            standbys=copies(result.assignments[member].standbys),
        )
        for member, said in group.members.items()
    }
    return replace(group, members=members, memory=result.memory)


def rounds(group: GroupSnapshot) -> dict[str, GroupSnapshot]:
    """The five rounds of one group."""
    steady = after(group, assign(group))
    identities = sorted({said.worker.instance for said in steady.members.values()})
    each = max(1, len(steady.members) // len(identities))
    dead, leaving = identities[0], set(identities[: len(identities) // 5])
    result = {
        "start": group,
        "steady": steady,
        "a death": replace(steady, members={m: s for m, s in steady.members.items() if s.worker.instance != dead}),
        "a tenth more": replace(
            steady,
            members={**steady.members, **workers(range(5000, 5000 + max(1, len(identities) // 10)), each)},
        ),
    }
    if leaving:
        result["a fifth leaves"] = replace(
            steady, members={m: replace(s, leaving=s.worker.instance in leaving) for m, s in steady.members.items()}
        )
    return result


def best_ms(action: Callable[[], object], repetitions: int) -> float:
    """The shortest of several runs."""
    times = []
    for _ in range(repetitions):
        start = time.thread_time()
        action()
        times.append(time.thread_time() - start)
    return min(times) * 1000


def measure(snapshot: GroupSnapshot, repetitions: int) -> tuple[float, float, float, int]:
    """ms to decode, to assign, to encode; bytes of all metadata."""
    asked = {member: encode_subscription(said) for member, said in snapshot.members.items()}
    decoded = {member: decode_subscription(data) for member, data in asked.items()}
    assert decoded == snapshot.members
    result = assign(snapshot)
    told = [encode_assignment(given) for given in result.assignments.values()]
    assert [decode_assignment(data) for data in told] == list(result.assignments.values())
    return (
        best_ms(lambda: [decode_subscription(data) for data in asked.values()], repetitions),
        best_ms(lambda: assign(snapshot), repetitions),
        best_ms(lambda: [encode_assignment(given) for given in result.assignments.values()], repetitions),
        sum(map(len, asked.values())) + sum(map(len, told)),
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repetitions", type=int, default=7)
    repetitions = options.parse_args().repetitions
    print(f"{'group':54}{'round':16}{'decode':>8}{'assign':>8}{'encode':>8}{'total':>8} ms{'KiB':>6}")
    for name, shape in GROUPS.items():
        for title, snapshot in rounds(empty_group(*shape)).items():
            decode_ms, assign_ms, encode_ms, size_bytes = measure(snapshot, repetitions)
            total_ms = decode_ms + assign_ms + encode_ms
            print(
                f"{name:54}{title:16}{decode_ms:8.1f}{assign_ms:8.1f}{encode_ms:8.1f}{total_ms:8.1f}   "
                f"{size_bytes / 1024:6.0f}"
            )


if __name__ == "__main__":
    main()
