"""A group that plays rounds: members that do what their assignments say, lose power, come and go.

There is no network and no clock: a round takes every living member's subscription, computes the assignment and hands it
out, to some members too late (they miss it, as when the next round begins before they have heard the result of this one).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from sim.invariants import balanced, violations

from assignor.assign import assign
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

FRESH_LAG = 50
"""Lag of a copy that starts from nothing."""
TOPOLOGY = b"topology"


@dataclass
class Machine:
    """An instance: the state on its disk outlives its workers."""

    identity: InstanceId
    capacity: int
    disk: dict[TaskId, int] = field(default_factory=dict)
    """Lag of each task's state that no worker has open."""


@dataclass
class Member:
    """One worker process."""

    member: MemberId
    worker: WorkerId
    machine: Machine
    running: set[TaskId] = field(default_factory=set)
    suspended: set[TaskId] = field(default_factory=set)
    being_learned: set[TaskId] = field(default_factory=set)
    learners: dict[TaskId, int] = field(default_factory=dict)
    standbys: dict[TaskId, int] = field(default_factory=dict)
    leaving: bool = False
    leave_timeout_ms: int | None = None
    deadline_ms: int | None = None

    def held(self) -> set[TaskId]:
        return self.running | self.suspended | self.learners.keys() | self.standbys.keys()


class Group:
    """Members, the leader's memory and the time; `play` is one round."""

    def __init__(self, tasks: dict[TaskId, bool], settings: AssignorSettings, seed: int) -> None:
        self.random = random.Random(seed)
        self.tasks = tasks
        self.settings = settings
        self.memory = LeaderMemory()
        self.members: dict[MemberId, Member] = {}
        self.machines: dict[InstanceId, Machine] = {}
        self.now_ms = 0
        self.wants_round = True
        self._joined = 0

    def start_machine(self, workers: int, capacity: int) -> None:
        identity = InstanceId(len(self.machines).to_bytes(16, "big"))
        self.machines[identity] = Machine(identity, capacity)
        for index in range(workers):
            self.start_worker(WorkerId(identity, index))

    def start_worker(self, worker: WorkerId) -> None:
        self._joined += 1
        member = MemberId(f"{self.random.randrange(1000):03}-{self._joined}")
        self.members[member] = Member(member, worker, self.machines[worker.instance])
        self.wants_round = True

    def stop(self, member: MemberId) -> None:
        """The process ends, by whatever cause; what it had stays on its disk as it was."""
        gone = self.members.pop(member)
        gone.machine.disk |= dict.fromkeys(gone.running | gone.suspended, 0) | gone.standbys | gone.learners
        self.wants_round = True

    def leave(self, instance: InstanceId, timeout_ms: int | None) -> None:
        for member in self.members.values():
            if member.worker.instance == instance and not member.leaving:
                member.leaving, member.leave_timeout_ms = True, timeout_ms
                member.deadline_ms = None if timeout_ms is None else self.now_ms + timeout_ms
                self.wants_round = True

    def stay(self, instance: InstanceId) -> None:
        for member in self.members.values():
            if member.worker.instance == instance and member.leaving:
                member.leaving, member.deadline_ms = False, None
                self.wants_round = True

    def subscriptions(self) -> dict[MemberId, Subscription]:
        order = list(self.members.values())
        self.random.shuffle(order)
        return {each.member: self._subscription(each) for each in order}

    def _subscription(self, each: Member) -> Subscription:
        opened = set().union(*(m.held() for m in self.members.values() if m.machine is each.machine))
        return Subscription(
            worker=each.worker,
            topology=TOPOLOGY,
            capacity=each.machine.capacity,
            active=frozenset(each.running),
            suspended=frozenset(each.suspended),
            learners={task: CopyState(LagRecords(lag), lag == 0) for task, lag in each.learners.items()},
            standbys={task: CopyState(LagRecords(lag)) for task, lag in each.standbys.items()},
            dormant={task: CopyState(LagRecords(lag)) for task, lag in each.machine.disk.items() if task not in opened},
            leaving=each.leaving,
            leave_timeout_ms=each.leave_timeout_ms if each.leaving else None,
        )

    def snapshot(self) -> GroupSnapshot:
        return GroupSnapshot(self.subscriptions(), self.tasks, self.settings, self.memory, self.now_ms, TOPOLOGY)

    def play(self, missing: float = 0.0, knowing: float = 0.0) -> RoundResult:
        """One round. `missing`: chance that a member does not hear its result; `knowing`: that a member suspends only
        what it believes to be ready."""
        self.wants_round = False
        for each in self.members.values():
            learned = each.being_learned & each.running
            if self.random.random() < knowing:
                learned = {task for task in learned if self.random.random() < 0.5}
            each.running -= learned
            each.suspended |= learned
        snapshot = self.snapshot()
        result = assign(snapshot)
        broken = violations(snapshot, result)
        assert not broken, broken
        self.memory = result.memory
        for each in list(self.members.values()):
            if self.random.random() < missing:
                self.wants_round = True
            else:
                self._follow(each, result.assignments[each.member])
        for task in self.tasks:
            runners = [each.member for each in self.members.values() if task in each.running]
            assert len(runners) <= 1, f"{task} is run by {runners}"
        for each in list(self.members.values()):
            if each.leaving and not each.running and not each.suspended and len(self.members) > 1:
                self.stop(each.member)
        return result

    def _follow(self, each: Member, given: Assignment) -> None:
        before = each.running | each.suspended
        copies = each.standbys | each.learners
        started = each.machine.disk
        for task in (before - given.active) | (copies.keys() - given.learners - given.standbys):
            started[task] = 0 if task in before else copies[task]

        def lag(task: TaskId) -> int:
            return started.pop(task, FRESH_LAG) if task not in copies else copies[task]

        known = each.learners.keys()
        each.learners = {task: lag(task) for task in given.learners}
        each.standbys = {task: lag(task) for task in given.standbys}
        for task in given.active - before:
            started.pop(task, None)
        each.running, each.suspended = set(given.active), set()
        each.being_learned = set(given.being_learned)
        if given.rejoin:
            self.wants_round = True
        if any(not lag and task not in known for task, lag in each.learners.items()):
            self.wants_round = True

    def work(self) -> None:
        """Copies catch up a little; what becomes ready asks for a round, as does patience that ends, soon after which the
        leaving member exits by itself."""
        self.now_ms += 1000
        for each in list(self.members.values()):
            if each.deadline_ms is not None and each.deadline_ms + 3000 <= self.now_ms:
                self.stop(each.member)
                continue
            for copies in (each.learners, each.standbys):
                for task, lag in copies.items():
                    copies[task] = max(0, lag - self.random.randrange(1, 40))
                    if lag and not copies[task] and copies is each.learners:
                        self.wants_round = True
            if each.deadline_ms is not None and each.deadline_ms <= self.now_ms:
                self.wants_round = True

    def settle(self, rounds_max: int) -> int:
        """Play rounds until nobody asks for another and nobody is learning. Returns how many it took."""
        for rounds in range(rounds_max):
            learning = any(each.learners for each in self.members.values())
            waiting = any(each.deadline_ms is not None for each in self.members.values())
            if not self.wants_round and not learning and not waiting:
                self._check_rest()
                return rounds
            if self.wants_round:
                self.play()
            self.work()
        raise AssertionError(f"not at rest after {rounds_max} rounds")

    def _check_rest(self) -> None:
        snapshot = self.snapshot()
        result = assign(snapshot)
        for member, given in result.assignments.items():
            each = self.members[member]
            now = Assignment(
                frozenset(each.running),
                frozenset(each.being_learned),
                frozenset(each.learners),
                frozenset(each.standbys),
            )
            assert given == now, f"{member} at rest has {now}, is given {given}"
        unbalanced = balanced(snapshot, result)
        assert not unbalanced, unbalanced


def random_group(seed: int) -> Group:
    """A group of a few machines with a few tasks of either kind."""
    choice = random.Random(seed)
    tasks = {
        TaskId(subtopology, partition): stateful
        for subtopology, stateful in enumerate(choice.choices((True, False), (7, 3), k=choice.randint(1, 3)))
        for partition in range(choice.randint(1, 12))
    }
    settings = AssignorSettings(choice.choice((0, 0, 1, 2, 3)), choice.choice((0.0, 0.2, 0.5)))
    group = Group(tasks, settings, seed)
    for _ in range(choice.randint(1, 4)):
        workers = choice.randint(1, 3)
        group.start_machine(workers, choice.choice((workers, workers, 1, 4)))
    return group


EVENTS = (
    *("work", "work", "round", "round", "start", "crash", "restart", "leave", "stay"),
    *("amnesia", "settings", "partitions"),
)
"""What can happen; `amnesia` is a new leader without memory, `partitions` are added to the input topics."""


def events(group: Group, steps: int) -> Iterator[str]:
    """Let things happen to a group, one at a time; yields what happened, for the report of a failure."""
    dice = group.random
    for _ in range(steps):
        members = list(group.members)
        kind = dice.choice(EVENTS)
        if kind == "start":
            workers = dice.randint(1, 3)
            group.start_machine(workers, workers)
        elif kind == "crash" and members:
            group.stop(dice.choice(members))
        elif kind == "restart" and members:
            worker = group.members[dice.choice(members)].worker
            group.stop(next(m for m, each in group.members.items() if each.worker == worker))
            group.start_worker(worker)
        elif kind == "leave" and members:
            group.leave(group.members[dice.choice(members)].worker.instance, dice.choice((None, 0, 3000)))
        elif kind == "stay" and members:
            group.stay(group.members[dice.choice(members)].worker.instance)
        elif kind == "amnesia":
            group.memory = LeaderMemory()
        elif kind == "settings":
            group.settings = AssignorSettings(dice.choice((0, 1, 2)), dice.choice((0.0, 0.2, 0.5)))
            group.wants_round = True
        elif kind == "partitions":
            subtopology = dice.choice(sorted(group.tasks)).subtopology
            same = [task for task in group.tasks if task.subtopology == subtopology]
            group.tasks |= {TaskId(subtopology, len(same) + more): group.tasks[same[0]] for more in range(3)}
        elif kind == "work":
            group.work()
        if members and kind not in ("work", "amnesia", "settings"):
            group.play(missing=dice.choice((0, 0, 0.3)), knowing=dice.choice((0, 0.5)))
        yield kind
