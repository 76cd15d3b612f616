"""What a seed stands for: a group with its settings, and what befalls it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from sim.watcher import Watcher

from assignor.model import AssignorSettings, TaskId
from kstreams_worker.simulator.timing import Timing
from kstreams_worker.simulator.world import Instance, InstanceSettings, Worker, World


@dataclass(frozen=True)
class Scenario:
    """A group at its start, and the faults to come: (time in ms, name)."""

    tasks: dict[TaskId, bool]
    records_s: dict[TaskId, float]
    ends: dict[TaskId, float]
    timing: Timing
    instances: list[InstanceSettings]
    faults: list[tuple[int, str]]
    control_topic: bool
    static: bool


def scenario(seed: int) -> Scenario:
    """A few instances with a few tasks, and up to two dozen faults, some of them at the same time."""
    dice = Random(seed)
    kinds = dice.choices((True, False), (7, 3), k=dice.randint(1, 3))
    tasks = {
        TaskId(subtopology, partition): stateful
        for subtopology, stateful in enumerate(kinds)
        for partition in range(dice.randint(1, 10))
    }
    history = dice.choice((0, 20_000, 400_000))
    timing = Timing(
        network_ms=dice.choice(((1, 5), (1, 5), (5, 200))),
        loop_ms=dice.choice(((1, 20), (1, 20), (50, 1_500))),
        leader_ms=dice.choice((5, 50, 500)),
        heartbeat_interval_ms=dice.choice((500, 500, 3_000)),
        initial_delay_ms=dice.choice((0, 0, 3_000)),
    )
    assignor = _assignor(dice)
    static = dice.random() < 0.3
    made = Scenario(
        tasks=tasks,
        records_s={task: dice.choice((0, 100, 2_000)) for task in tasks},
        ends={task: history * dice.random() for task in tasks},
        timing=timing,
        instances=[],
        faults=_faults(dice),
        control_topic=dice.random() < 0.5,
        static=static,
    )
    mixed = dice.random() < 0.15
    partial = dice.random() < 0.7
    for number in range(dice.randint(1, 4)):
        made.instances.append(_instance(dice, number, static, partial, _assignor(dice) if mixed else assignor))
    return made


def _assignor(dice: Random) -> AssignorSettings:
    return AssignorSettings(dice.choice((0, 0, 1, 2)), dice.choice((0.0, 0.2, 0.5)))


def _instance(dice: Random, number: int, static: bool, partial: bool, assignor: AssignorSettings) -> InstanceSettings:
    workers = dice.choice((1, 1, 2, 3))
    return InstanceSettings(
        name=chr(ord("A") + number % 26) + (str(number // 26) if number > 25 else ""),
        workers=workers,
        capacity=dice.choice((workers, workers, workers, 1, 4)),
        static=static,
        partial_rebalance=partial,
        assignor=assignor,
        clock_skew_ms=dice.choice((0, 0, -4_000, 4_000)),
    )


def _faults(dice: Random) -> list[tuple[int, str]]:
    at_ms, faults = 0, []
    for _ in range(dice.randint(1, 16)):
        at_ms += dice.choice((0, 30, 300, 2_000, 10_000, 40_000))
        faults.append((at_ms, dice.choice(list(FAULTS))))
    return faults


# -- faults: each picks whom it hits from who is there, by the scenario's own dice ------------------------------------------


@dataclass
class Stage:
    """A world in which a scenario is played."""

    world: World
    made: Scenario
    dice: Random

    def some_worker(self) -> Worker | None:
        workers = self.world.workers()
        return self.dice.choice(workers) if workers else None

    def some_instance(self, *, leaving: bool = False) -> Instance | None:
        found = [each for each in self.world.instances.values() if each.workers and each.leaving is leaving]
        return self.dice.choice(found) if found else None


def set_up(made: Scenario, watcher: Watcher, seed: int) -> Stage:
    """The group of a scenario, before anything has happened."""
    world = World(made.tasks, made.timing, watcher, seed=seed, control_topic=made.control_topic)
    for task, log in world.logs.tasks.items():
        if log.stateful:
            log.records_s, log.end = made.records_s[task], made.ends[task]
    watcher.world = world
    stage = Stage(world, made, Random(seed + 1))
    for settings in made.instances:
        world.start_instance(settings)
    for at_ms, kind in made.faults:
        world.clock.after(at_ms, lambda kind=kind: FAULTS[kind](stage))  # type: ignore[misc]
    return stage


def start_instance(stage: Stage) -> None:
    number = len(stage.world.instances)
    like = stage.made.instances[0]
    stage.world.start_instance(_instance(stage.dice, number, stage.made.static, like.partial_rebalance, like.assignor))


def crash_worker(stage: Stage) -> None:
    worker = stage.some_worker()
    if worker is not None:
        stage.world.crash(worker)


def crash_two(stage: Stage) -> None:
    crash_worker(stage)
    crash_worker(stage)


def crash_leader_in_mid_round(stage: Stage) -> None:
    stage.world.crash_leader_at_round = stage.world.coordinator.generation + 1


def crash_host(stage: Stage) -> None:
    instance = stage.some_instance()
    if instance is not None:
        back_ms = stage.dice.choice((None, 3_000, 30_000))
        stage.world.crash_host(instance, back_after_ms=back_ms, disk_lost=stage.dice.random() < 0.3)


def bounce(stage: Stage) -> None:
    instance = stage.some_instance()
    if instance is not None:
        stage.world.close_instance(instance, back_after_ms=stage.dice.choice((1_000, 5_000, 20_000)))


def close(stage: Stage) -> None:
    instance = stage.some_instance()
    if instance is not None:
        stage.world.close_instance(instance)


def pause(stage: Stage) -> None:
    worker = stage.some_worker()
    if worker is not None:
        stage.world.pause(worker, stage.dice.choice((200, 2_000, 9_000, 15_000, 80_000)))


def slow_record(stage: Stage) -> None:
    worker = stage.some_worker()
    if worker is not None:
        for_ms = stage.dice.choice((500, 1_900, 5_000, 20_000))
        stage.world.observer.happened(worker.name, f"works on one record for {for_ms} ms")
        worker.loop.busy(for_ms)


def slow_link(stage: Stage) -> None:
    worker = stage.some_worker()
    if worker is not None:
        worker.link.slow_delay_ms = stage.dice.choice((300, 3_000))
        worker.link.slow_until_ms = stage.world.clock.now_ms + 10_000
        stage.world.observer.happened(worker.name, f"messages take {worker.link.slow_delay_ms} ms for 10 s")


def slow_restore(stage: Stage) -> None:
    worker = stage.some_worker()
    if worker is not None:
        restorer = worker.loop.restorer
        stage.world.observer.happened(worker.name, "restores slowly for 20 s")
        restorer.slow_down(20.0)
        worker.process.after(20_000, lambda: restorer.slow_down(1.0))


def hand_over(stage: Stage) -> None:
    instance = stage.some_instance()
    if instance is not None:
        stage.world.hand_over_instance(instance, stage.dice.choice((None, 0, 3_000, 20_000)))


def leave(stage: Stage) -> None:
    instance = stage.some_instance()
    if instance is not None:
        stage.world.leave(instance, stage.dice.choice((None, 0, 3_000, 20_000)))


def cancel(stage: Stage) -> None:
    instance = stage.some_instance(leaving=True)
    if instance is not None:
        stage.world.stay(instance)


def add_partitions(stage: Stage) -> None:
    """Not in groups of static members: after a bounce of the leader none of them knows that it leads, until the next round,
    and so nobody looks at the topics (the broker tells it only clients that speak KIP-814)."""
    if stage.made.static:
        return
    stage.world.add_partitions(stage.dice.choice(sorted(stage.world.logs.tasks)).subtopology, 2)


def forget(stage: Stage) -> None:
    stage.world.forget()


FAULTS: dict[str, Callable[[Stage], None]] = {
    each.__name__: each
    for each in (
        start_instance,
        crash_worker,
        crash_two,
        crash_leader_in_mid_round,
        crash_host,
        bounce,
        close,
        pause,
        slow_record,
        slow_link,
        slow_restore,
        hand_over,
        leave,
        cancel,
        add_partitions,
        forget,
    )
}
