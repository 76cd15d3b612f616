"""Checks everything that a simulated group does, and writes its history down.

What holds for a single round is in `invariants`. Here is what holds over time: who processes a task, with which state, and
which tasks a worker stops.
"""

from __future__ import annotations

import hashlib

from sim.invariants import violations

from assignor.model import GroupSnapshot, MoveCase, RoundResult, TaskId
from assignor.wire import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from kstreams_worker.simulator.coordinator import GroupState
from kstreams_worker.simulator.restore import Copy
from kstreams_worker.simulator.world import Observer, Worker, World
from kstreams_worker.tasks.states import TaskEvent


class Broken(AssertionError):
    """An invariant does not hold."""


def check(holds: bool, sentence: str) -> None:
    """Raises Broken unless it holds."""
    if not holds:
        raise Broken(sentence)


class Watcher(Observer):
    """`world` is set once it is made."""

    def __init__(self) -> None:
        self.world: World
        self.history: list[str] = []
        self.started_ms: dict[TaskId, int] = {}
        self.rounds_at_ms: list[int] = []
        self._led: dict[Worker, int] = {}
        """The last generation that each has led."""

    def fingerprint(self) -> str:
        """A hash of the whole history."""
        return hashlib.sha256("\n".join(self.history).encode()).hexdigest()

    def happened(self, who: str, what: str) -> None:
        self.history.append(f"{self.world.clock.now_ms / 1000:10.3f} s  {who:6} {what}")

    def round(self, leader: Worker, generation: int, snapshot: GroupSnapshot, result: RoundResult) -> None:
        self.rounds_at_ms.append(self.world.clock.now_ms)
        moves = [
            f"{each.task} {each.case.value}"
            + (
                f" {_name(snapshot, each.previous)}->{_name(snapshot, each.owner)}"
                if each.owner != each.previous
                else ""
            )
            + (f" learned by {_name(snapshot, each.learner)}" if each.learner else "")
            for each in result.decisions
            if each.case is not MoveCase.KEEP
        ]
        members = " ".join(sorted(_name(snapshot, member) for member in snapshot.members))
        self.happened(leader.name, f"leads round {generation} of {members}: {', '.join(moves) or 'all is kept'}")
        for said in snapshot.members.values():
            check(decode_subscription(encode_subscription(said)) == said, f"I10: {said} is not read as written")
        self._check_heard(generation, snapshot)
        self._check_recalled(leader, generation, snapshot)
        for given in result.assignments.values():
            check(decode_assignment(encode_assignment(given)) == given, f"I10: {given} is not read as written")
        broken = violations(snapshot, result)
        check(not broken, "; ".join(broken))

    def _check_heard(self, generation: int, snapshot: GroupSnapshot) -> None:
        """I10: what the leader heard is what the members of this generation said."""
        if self.world.coordinator.generation != generation or self.world.coordinator.state is not GroupState.COMPLETING:
            return
        for member, said in snapshot.members.items():
            speaker = self.world.worker_of(member)
            if speaker is not None and speaker.member.generation == generation:
                check(speaker.member.said == said, f"I10: {speaker.name} said {speaker.member.said}, heard was {said}")

    def _check_recalled(self, leader: Worker, generation: int, snapshot: GroupSnapshot) -> None:
        """Who leads goes on with the newest memory there is: its own, or what another has published since."""
        published = self.world.control.memory
        if published is not None and published.generation > self._led.get(leader, -1):
            check(
                snapshot.memory == published.recalled(),
                f"I9: {leader.name} leads round {generation} without what the leader of {published.generation} remembered",
            )
        self._led[leader] = generation

    def moved(self, worker: Worker, copy: Copy, event: TaskEvent) -> None:
        self.happened(worker.name, f"{copy.task} {event.name.lower()} ({copy.role.value}, {copy.state.value})")
        if event in (TaskEvent.STARTED, TaskEvent.RESUME):
            self._starts(worker, copy)
        elif event is TaskEvent.SUSPEND:
            self._stops(worker, copy.task)

    def _starts(self, worker: Worker, copy: Copy) -> None:
        """I1, at every moment: of those who process a task only one is a member, from whom offsets are taken."""
        self.started_ms[copy.task] = self.world.clock.now_ms
        log = self.world.logs.tasks[copy.task]
        mine = worker.loop.identity.worker
        for runner in log.runners:
            other = self.world.worker(runner)
            both = other is not None and other.member.may_commit() and worker.member.may_commit()
            check(runner == mine or not both, f"I1: {worker.name} starts {copy.task}, which {runner} processes")
        complete = not copy.stateful or copy.version == log.version
        check(
            complete or not worker.member.may_commit(),
            f"{worker.name} starts {copy.task} with old state: others have committed since",
        )

    def _stops(self, worker: Worker, task: TaskId) -> None:
        """I5: only what is learned or taken away is stopped, but by workers that end."""
        given = worker.loop.assignment
        ordered = task in given.being_learned or task not in given.active
        check(ordered or worker.loop.closing, f"I5: {worker.name} stops {task}, which it is to process")


def _name(snapshot: GroupSnapshot, member: str | None) -> str:
    if member is None:
        return "nobody"
    said = next((said for name, said in snapshot.members.items() if name == member), None)
    return f"{said.name}/{said.worker.index}" if said else member
