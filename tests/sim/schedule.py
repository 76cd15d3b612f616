"""One schedule: a seed's scenario played to its end, with everything checked, until the group is at rest."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sim.invariants import balanced
from sim.scenario import Stage, scenario, set_up, start_instance
from sim.watcher import Watcher, check

from assignor.assign import assign
from assignor.model import Assignment, GroupSnapshot, LeaderMemory, MemberId
from kstreams_worker.group.states import MemberState
from kstreams_worker.simulator.coordinator import GroupState
from kstreams_worker.simulator.world import TOPOLOGY, Worker
from kstreams_worker.tasks.states import Role, TaskState

REST_WITHIN_MS = 900_000
"""Simulated time after the last fault in which a group must come to rest."""
ROUNDS_MAX = 60
"""Rounds after the last fault."""
AVAILABLE_WITHIN_MS = 200_000
"""Simulated time after the last fault within which every task has started for the last time. Pauses of 80 s are among the
faults, and restoring everything takes a lone worker two minutes."""


@dataclass(frozen=True)
class Outcome:
    """How a schedule ended. `broken` is empty if all was well."""

    seed: int
    broken: str
    history: list[str]
    fingerprint: str
    rounds: int = 0
    rounds_after_faults: int = 0
    rest_after_ms: int = 0
    available_after_ms: int = 0

    def __str__(self) -> str:
        if self.broken:
            return f"{self.broken}\nreplay: python -m tests.sim --seed {self.seed} --trace"
        return (
            f"seed {self.seed}: {self.rounds} rounds; at rest {self.rest_after_ms / 1000:.1f} s and "
            f"{self.rounds_after_faults} rounds after the last fault"
        )

    def without_history(self) -> Outcome:
        """For a long way."""
        return replace(self, history=[])


def play(seed: int) -> Outcome:
    """Play a schedule. Never raises: what is wrong is told in the outcome."""
    watcher = Watcher()
    made = scenario(seed)
    stage = set_up(made, watcher, seed)
    try:
        last_fault_ms = made.faults[-1][0]
        while stage.world.clock.step(last_fault_ms):
            pass
        rest_by_ms = last_fault_ms + REST_WITHIN_MS
        for _ in range(2):
            # Somebody must be there to take the tasks of those that leave, also if the last other one has left since, or had
            # left when it was to stay after all.
            if all(each.gone or each.leaving or each.has_left for each in stage.world.instances.values()):
                start_instance(stage)
            while stage.world.clock.step(rest_by_ms):
                pass
        _check_rest(stage)
        rounds_after = sum(at_ms > last_fault_ms for at_ms in watcher.rounds_at_ms)
        check(rounds_after <= ROUNDS_MAX, f"I6: {rounds_after} rounds after the last fault")
        available_ms = max(0, max(watcher.started_ms.values()) - last_fault_ms)
        check(available_ms <= AVAILABLE_WITHIN_MS, f"{available_ms} ms without faults until all tasks were processed")
        return Outcome(
            seed,
            "",
            watcher.history,
            watcher.fingerprint(),
            len(watcher.rounds_at_ms),
            rounds_after,
            max(0, stage.world.clock.now_ms - last_fault_ms),
            available_ms,
        )
    except Exception as failure:
        at = stage.world.clock.now_ms / 1000
        broken = f"seed {seed}, after {at:.3f} s: {type(failure).__name__}: {failure}"
        return Outcome(seed, broken, watcher.history, watcher.fingerprint())


def _check_rest(stage: Stage) -> None:
    """Nobody waits for anything, every task runs once, the balance is right, and another round would change nothing."""
    world = stage.world
    check(not world.clock.pending(), "I6: not at rest, something is still to happen")
    check(world.coordinator.state is GroupState.STABLE, f"I6: the group stays {world.coordinator.state.name}")
    members: dict[MemberId, Worker] = {}
    for worker in world.workers():
        check(
            worker.member.machine.state is MemberState.STABLE,
            f"I6: {worker.name} stays {worker.member.machine.state.name}",
        )
        members[MemberId(worker.member.member_id)] = worker
    check(
        set(members) == set(world.coordinator.seats),
        f"the group has members {sorted(world.coordinator.seats)}, alive are {sorted(members)}",
    )
    for task, log in world.logs.tasks.items():
        check(len(log.runners) == 1, f"I2: at rest {task} is processed by {log.runners}")
    leader = members[MemberId(world.coordinator.leader)]
    settings = leader.instance.settings
    snapshot = GroupSnapshot(
        {member: worker.loop.subscription() for member, worker in members.items()},
        world.tasks(),
        settings.assignor,
        leader.leader.last_round.memory if leader.leader.last_round else LeaderMemory(),
        world.clock.now_ms + settings.clock_skew_ms,
        TOPOLOGY,
    )
    result = assign(snapshot)
    for member, given in result.assignments.items():
        now = _now(members[member])
        check(given == now, f"I6: {members[member].name} at rest has {now}, another round would give {given}")
    unbalanced = balanced(snapshot, result)
    check(not unbalanced, f"I6: at rest {unbalanced}")


def _now(worker: Worker) -> Assignment:
    held = worker.loop.tasks.values()
    return Assignment(
        active=frozenset(copy.task for copy in held if copy.state is TaskState.RUNNING),
        learners=frozenset(copy.task for copy in held if copy.role is Role.LEARNER),
        standbys=frozenset(copy.task for copy in held if copy.role is Role.STANDBY),
    )
