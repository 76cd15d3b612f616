"""What a change of a large group costs: rounds, time to balance, bytes restored, time in which tasks are not processed.

Three ways of rebalancing, for the same group, the same change and, in the end, the same placement of tasks:

- **eager** (`learner.partial.rebalance=true`, the default): tasks go on with their owners until others have learned them;
  each is handed over as soon as its learner is ready. Least double work, most rounds.
- **conservative** (`learner.partial.rebalance=false`): the same, but a worker asks for its tasks only when it has learned all
  of them. Fewest rounds; who has learned early waits for the slowest.
- **stop-the-world**: no learners. All workers stop all tasks, one round hands out the final placement, and each worker
  processes nothing before it has restored all its tasks, as Kafka Streams did before it had warm-ups (KIP-441).

The first two are simulated with the real assignor; the third is computed from where they begin and end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from assignor.model import AssignorSettings, InstanceId, TaskId, WorkerId
from kstreams_worker.simulator.restore import Copy
from kstreams_worker.simulator.timing import Timing
from kstreams_worker.simulator.world import Instance, InstanceSettings, Observer, Worker, World
from kstreams_worker.tasks.states import TaskEvent, TaskState

LEADER_MS_PER_TASK = 0.015
"""A leader's round, with the codec: what `python -m benchmarks.bench_assignor` shows for large groups."""
BYTES_PER_MB = 1_000_000
REST_WITHIN_MS = 30 * 24 * 3_600_000
"""A change that takes more than a month is none."""
EVENTS_PER_REPORT = 2_000


class Change(StrEnum):
    """What happens to the group."""

    SCALE_UP = "scale-up"
    SCALE_DOWN = "scale-down"
    CRASH = "crash"


class Way(StrEnum):
    """How it is rebalanced."""

    EAGER = "eager"
    CONSERVATIVE = "conservative"
    STOP_THE_WORLD = "stop-the-world"


@dataclass(frozen=True, slots=True)
class Plan:
    """A group and a change. `count` is how many instances come, go or crash."""

    change: Change
    count: int = 1
    instances: int = 10
    workers_per_instance: int = 1
    tasks: int = 100
    standbys: int = 0
    state_mb_per_task: float = 100
    state_spread: float = 0.3
    """A task's state is within this fraction of the size above, at random."""
    restore_mb_s: float = 80
    """What one instance restores, shared by its workers."""
    record_bytes: int = 1_000
    acceptable_lag: int = 10_000
    imbalance: float = 0.2
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What it came to. Times count from the change; a crashed host is noticed only when its sessions end."""

    way: Way
    rounds: int
    moved_tasks: int
    time_to_balance_s: float
    restored_mb: float
    unavailable_task_s: float
    longest_gap_s: float


Report = Callable[[Way, int, float], None]
"""(way, rounds so far, simulated seconds so far)"""


def costs(plan: Plan, report: Report = lambda way, rounds, seconds: None) -> list[Cost]:
    """The three ways compared. Some instance must stay."""
    eager = _Run(plan, Way.EAGER, report)
    conservative = _Run(plan, Way.CONSERVATIVE, report)
    return [eager.cost(), conservative.cost(), _stop_the_world(eager)]


class _LastMove(Observer):
    """Remembers when the last task changed its state: what is still to happen after that is nothing but idle timers."""

    def __init__(self) -> None:
        self.world: World
        self.at_ms = 0

    def moved(self, worker: Worker, copy: Copy, event: TaskEvent) -> None:
        self.at_ms = self.world.clock.now_ms


class _Run:
    """One group, from its start over the change to its rest."""

    def __init__(self, plan: Plan, way: Way, report: Report) -> None:
        self.plan, self.way, self._report = plan, way, report
        workers = plan.workers_per_instance
        tasks = {TaskId(0, partition): True for partition in range(plan.tasks)}
        timing = Timing(
            initial_delay_ms=3_000,
            leader_ms=5 + LEADER_MS_PER_TASK * plan.tasks,
            restore_records_s=plan.restore_mb_s * BYTES_PER_MB / plan.record_bytes / workers,
            acceptable_lag=plan.acceptable_lag,
        )
        last_move = _LastMove()
        self.world = last_move.world = World(tasks, timing, last_move, seed=plan.seed)
        self._settings = InstanceSettings(
            name="",
            workers=workers,
            capacity=workers,
            partial_rebalance=way is Way.EAGER,
            assignor=AssignorSettings(plan.standbys, plan.imbalance),
        )
        for number in range(plan.instances):
            self._start(number)
        self._to_rest()
        self._fill()
        self.before = self.owners()
        self.copies = self._copies()
        self.rounds_before, self.restored_before = self.world.rounds, self.world.restored()
        self.changed_ms = self.world.clock.now_ms
        self.world.logs.forget_gaps()
        self._change()
        self._to_rest()
        self.rested_ms = last_move.at_ms

    def cost(self) -> Cost:
        logs = self.world.logs
        return Cost(
            way=self.way,
            rounds=self.world.rounds - self.rounds_before,
            moved_tasks=len(self.moved()),
            time_to_balance_s=(self.rested_ms - self.changed_ms) / 1000,
            restored_mb=self.megabytes(self.world.restored() - self.restored_before),
            unavailable_task_s=sum(logs.unavailable_ms.values()) / 1000,
            longest_gap_s=max(logs.longest_gap_ms.values(), default=0) / 1000,
        )

    def owners(self) -> dict[TaskId, WorkerId]:
        return {task: log.runners[0] for task, log in self.world.logs.tasks.items()}

    def moved(self) -> dict[TaskId, WorkerId]:
        """Tasks that are on another instance than before, and where."""
        return {task: at for task, at in self.owners().items() if at.instance != self.before[task].instance}

    def megabytes(self, records: float) -> float:
        return records * self.plan.record_bytes / BYTES_PER_MB

    def _start(self, number: int) -> None:
        self.world.start_instance(replace(self._settings, name=f"i{number:04}"))

    def _change(self) -> None:
        plan, world = self.plan, self.world
        affected: list[Instance] = list(world.instances.values())[: plan.count]
        if plan.change is Change.SCALE_UP:
            for number in range(plan.instances, plan.instances + plan.count):
                self._start(number)
        for instance in affected:
            if plan.change is Change.SCALE_DOWN:
                world.leave(instance, None)
            elif plan.change is Change.CRASH:
                world.crash_host(instance)

    def _to_rest(self) -> None:
        world, until_ms, events = self.world, self.world.clock.now_ms + REST_WITHIN_MS, 0
        while world.clock.step(until_ms):
            events += 1
            if events % EVENTS_PER_REPORT == 0:
                self._report(self.way, world.rounds, world.clock.now_ms / 1000)

    def _fill(self) -> None:
        """A group that has run for long: every changelog has its length, and every copy is up to date."""
        plan, dice = self.plan, Random(self.plan.seed)
        records = plan.state_mb_per_task * BYTES_PER_MB / plan.record_bytes
        for log in self.world.logs.tasks.values():
            log.end = records * dice.uniform(1 - plan.state_spread, 1 + plan.state_spread)
        for worker in self.world.workers():
            for copy in worker.loop.tasks.values():
                copy.position = self.world.logs.end(copy.task)

    def _copies(self) -> set[tuple[TaskId, InstanceId]]:
        """Which instances have a warm copy of which task that they do not process."""
        return {
            (copy.task, worker.instance.identity)
            for worker in self.world.workers()
            for copy in worker.loop.tasks.values()
            if copy.state is not TaskState.RUNNING
        }


def _stop_the_world(run: _Run) -> Cost:
    world, timing = run.world, run.world.timing
    noticed_s = timing.session_timeout_ms / 1000 if run.plan.change is Change.CRASH else 0.0
    round_s = (timing.heartbeat_interval_ms + timing.leader_ms) / 1000
    owners, moved = run.owners(), run.moved()
    missing: defaultdict[WorkerId, float] = defaultdict(float)
    for task, worker in moved.items():
        if (task, worker.instance) not in run.copies:
            missing[worker] += world.logs.end(task)
    stopped_s = {
        worker: round_s + missing[worker] / timing.restore_records_s + timing.take_over_ms / 1000
        for worker in set(owners.values())
    }
    crashed = {instance.identity for instance in world.instances.values() if instance.gone}
    orphans = sum(worker.instance in crashed for worker in run.before.values())
    tasks_of = Counter(owners.values())
    return Cost(
        way=Way.STOP_THE_WORLD,
        rounds=1,
        moved_tasks=len(moved),
        time_to_balance_s=noticed_s + max(stopped_s.values()),
        restored_mb=run.megabytes(sum(missing.values())),
        unavailable_task_s=sum(tasks_of[worker] * stopped_s[worker] for worker in tasks_of) + orphans * noticed_s,
        longest_gap_s=max(stopped_s.values()) + (noticed_s if orphans else 0.0),
    )
