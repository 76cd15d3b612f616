"""What a round costs its leader, and how many bytes it is: `python -m benchmarks.bench_assignor [--group N] [--largest]`.

Measured is `Leader.assign` as workers run it: decode all subscriptions, assign, encode all assignments, with the pause of
Python's garbage collector and the collection that follows it. Only the topics are not looked at. Run it alone on the machine.

Each group is taken through five rounds: `start` (nobody has anything), `steady` (all as before), `a death` (one instance
gone), `a tenth more` (newcomers to be given learners) and `a fifth leaves`. `cold` is the first such round of a process,
`warm` the best of the repetitions; both are CPU time. Bytes are all subscriptions and assignments of the round, and in
`record` the whole record that the broker keeps of the group, which is to stay below 1 MB.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import random
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import structlog
import typer

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
from assignor.wire import encode_subscription
from benchmarks.report import Report
from kstreams_worker.group.leader import Leader

TOPOLOGY = b"12345678"
GROUP_RECORD_BYTES_MAX = 1_048_588
"""The broker's message.max.bytes by default."""
MEMBER_FIELDS_BYTES = 32
"""Of a member in the group's record, beside its texts and metadata: lengths, timeouts, tags."""
GRAIN_WORKERS = 50
"""The largest group that fits is found to so many workers."""


@dataclass(frozen=True)
class Shape:
    """A group's size."""

    instances: int
    workers_each: int
    tasks: int
    standbys: int

    def __str__(self) -> str:
        workers = f" of {self.workers_each} workers" if self.workers_each > 1 else ""
        copies = f", {self.standbys} standbys" if self.standbys else ""
        return f"{self.instances:,} instances{workers}, {self.tasks:,} tasks{copies}"


SHAPES = (
    Shape(1000, 1, 1000, 0),
    Shape(2, 1, 6000, 0),
    Shape(100, 1, 1000, 50),
    Shape(1000, 1, 10_000, 1),
    Shape(100, 10, 10_000, 1),
    Shape(1000, 10, 100_000, 1),
)


@dataclass(frozen=True)
class Round:
    """A round to be measured: what members say, and what they said in the round before, which the leader made too."""

    shape: Shape
    title: str
    said: Mapping[str, bytes]
    before: Mapping[str, bytes] | None


@dataclass(frozen=True)
class Cost:
    """Of one round."""

    cold_ms: float
    warm_ms: float
    metadata_bytes: int
    record_bytes: int


class Topics:
    """The tasks of a shape, known without asking a broker."""

    def __init__(self, shape: Shape) -> None:
        self._tasks = {TaskId(0, partition): True for partition in range(shape.tasks)}

    def tasks(self) -> Mapping[TaskId, bool]:
        return self._tasks

    def sources(self) -> Mapping[int, tuple[str, ...]]:
        return {0: ("orders",)}


# -- groups -----------------------------------------------------------------------------------------------------------


def workers(chance: random.Random, instances: range, each: int) -> dict[MemberId, Subscription]:
    """Members with nothing, named as a deployment would name them."""
    return {
        MemberId(f"orders-orders-{number}-{index}-{chance.randbytes(18).hex()}"): Subscription(
            WorkerId(InstanceId(chance.randbytes(16)), index),
            TOPOLOGY,
            capacity=each,
            name=f"orders-{number}",
            endpoint=f"10.0.{number >> 8}.{number & 255}:8080",
        )
        for number in instances
        for index in range(each)
    }


def family(members: dict[MemberId, Subscription]) -> dict[MemberId, Subscription]:
    """The same members with one process id for all workers of an instance."""
    identities = {said.name: said.worker.instance for said in members.values()}
    return {m: replace(said, worker=WorkerId(identities[said.name], said.worker.index)) for m, said in members.items()}


def rounds(shape: Shape) -> dict[str, tuple[GroupSnapshot, GroupSnapshot | None]]:
    """The five rounds of a group, each with the round before it."""
    chance = random.Random(7)
    start = GroupSnapshot(
        family(workers(chance, range(shape.instances), shape.workers_each)),
        Topics(shape).tasks(),
        AssignorSettings(num_standby_tasks=shape.standbys),
        topology=TOPOLOGY,
    )
    steady = after(chance, start, assign(start))
    tenth, fifth = max(1, shape.instances // 10), shape.instances // 5
    names = sorted({said.name for said in steady.members.values()})
    dead, leaving = names[0], set(names[:fifth])
    newcomers = range(shape.instances, shape.instances + tenth)
    grown = {**steady.members, **family(workers(chance, newcomers, shape.workers_each))}
    events = {
        "steady": steady.members,
        "a death": {member: said for member, said in steady.members.items() if said.name != dead},
        "a tenth more": grown,
        "a fifth leaves": {m: replace(said, leaving=said.name in leaving) for m, said in steady.members.items()},
    }
    if not fifth:
        del events["a fifth leaves"]
    return {"start": (start, None)} | {
        title: (replace(steady, members=members), steady) for title, members in events.items()
    }


def after(chance: random.Random, group: GroupSnapshot, result: RoundResult) -> GroupSnapshot:
    """The group once it has followed an assignment; copies lag a little."""

    def copies(tasks: frozenset[TaskId]) -> dict[TaskId, CopyState]:
        return {task: CopyState(LagRecords(chance.randrange(3000))) for task in sorted(tasks)}

    members = {
        member: replace(
            said,
            active=result.assignments[member].active,
            standbys=copies(result.assignments[member].standbys),
        )
        for member, said in group.members.items()
    }
    return replace(group, members=members, memory=result.memory)


def to_measure(shape: Shape) -> list[Round]:
    """The rounds of a shape, as bytes."""

    def encoded(snapshot: GroupSnapshot | None) -> dict[str, bytes] | None:
        return snapshot and {member: encode_subscription(said) for member, said in snapshot.members.items()}

    return [
        Round(shape, title, encoded(snapshot) or {}, encoded(before))
        for title, (snapshot, before) in rounds(shape).items()
    ]


# -- measuring ----------------------------------------------------------------------------------------------------------


def measure(each: Round, repetitions: int) -> Cost:
    """Run a round again and again, each time with a leader that has made the round before it. In a process of its own."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    settings, topics = AssignorSettings(num_standby_tasks=each.shape.standbys), Topics(each.shape)
    leader_id = min(each.said)
    # The tasks themselves live as long as a worker does, and were looked through many times.
    gc.collect()
    times_ms: list[float] = []
    given: dict[str, bytes] = {}
    for repetition in range(repetitions + 1):
        leader = Leader(settings, topics, TOPOLOGY)
        if each.before is not None and repetition:
            leader.assign(leader_id, each.before, 1)
        gc.collect()
        started = time.thread_time()
        given = leader.assign(leader_id, each.said, 2)
        gc.collect(1)  # what was put off
        times_ms.append((time.thread_time() - started) * 1000)
    metadata_bytes = sum(map(len, each.said.values())) + sum(map(len, given.values()))
    return Cost(times_ms[0], min(times_ms[1:]), metadata_bytes, metadata_bytes + _other_bytes(each.said))


def _other_bytes(members: Mapping[str, bytes]) -> int:
    """What else the broker keeps of each member: its id, its client's id (the same without the random part), its host."""
    hosts_bytes = len("/10.0.255.255")
    return sum(2 * len(member) - 37 + hosts_bytes + MEMBER_FIELDS_BYTES for member in members)


def largest(standbys: int, tasks_each: int) -> tuple[int, int]:
    """The most workers with so many tasks each whose record fits in every round, and the bytes of that record."""

    def record_bytes(count: int) -> int:
        shape = Shape(count, 1, count * tasks_each, standbys)
        return max(measure(each, 1).record_bytes for each in to_measure(shape))

    count, tried = GRAIN_WORKERS * 10, dict[int, int]()
    while count not in tried:
        tried[count] = record_bytes(count)
        # Each worker takes nearly the same, so the next guess is close already.
        count = int(GROUP_RECORD_BYTES_MAX / tried[count] * count) // GRAIN_WORKERS * GRAIN_WORKERS
    return max((fits, size) for fits, size in tried.items() if size <= GROUP_RECORD_BYTES_MAX)


# -- the command --------------------------------------------------------------------------------------------------------


def main(
    *,
    groups: Annotated[
        list[int] | None, typer.Option("--group", metavar="N", help="Only the N-th group; may be repeated.")
    ] = None,
    repetitions: Annotated[int, typer.Option("--repetitions", min=1, help="The best of so many.")] = 7,
    find_largest: Annotated[bool, typer.Option("--largest", help="Also find the largest groups that fit.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Append results as JSON lines.")
    ] = None,
) -> None:
    """What a round costs its leader, and how many bytes it is."""
    report = Report(json_file)
    for number, shape in enumerate(SHAPES, 1):
        if groups and number not in groups:
            continue
        rows = []
        for each in to_measure(shape):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
                cost = fresh.submit(measure, each, repetitions).result()
            report.record("round", group=str(shape), round=each.title, **vars(cost))
            rows.append(
                (
                    each.title,
                    *(f"{ms:,.0f}" for ms in (cost.cold_ms, cost.warm_ms)),
                    *(f"{size / 1024:,.0f}" for size in (cost.metadata_bytes, cost.record_bytes)),
                )
            )
        report.table(f"{number}: {shape}", ["round", "cold ms", "warm ms", "KiB", "record KiB"], rows)
    if find_largest:
        for standbys, tasks_each in ((0, 1), (0, 10), (1, 10)):
            count, size_bytes = largest(standbys, tasks_each)
            report.record("largest", workers=count, tasks_each=tasks_each, standbys=standbys, record_bytes=size_bytes)
            report.say(
                f"largest group of single workers with {tasks_each} tasks each and {standbys} standbys: "
                f"{count:,} workers, a record of {size_bytes / 1024:,.0f} KiB"
            )


if __name__ == "__main__":
    typer.run(main)
