"""A task is handed over while its former owner stands still, and comes back to it: what it has open is old by then."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sim.watcher import Broken, Watcher

from assignor.model import TaskId
from kstreams_worker.group.states import MemberState
from kstreams_worker.simulator import loop
from kstreams_worker.simulator.timing import Timing
from kstreams_worker.simulator.world import InstanceSettings, World
from kstreams_worker.tasks.states import TaskState

LIMIT_MS = 300_000


def run_until(world: World, happened: Callable[[], bool]) -> None:
    while not happened():
        assert world.clock.step(LIMIT_MS), "it never happens"


def play() -> Watcher:
    """`giver` hands a task to `taker`, stands still before it hears so; `taker` processes it, dies; `giver` gets it back."""
    watcher = Watcher()
    world = watcher.world = World({TaskId(0, 0): True, TaskId(0, 1): True}, Timing(), watcher)
    taker = world.start_instance(InstanceSettings("taker")).workers[0]
    run_until(world, lambda: taker.member.machine.state is MemberState.STABLE)
    instance = world.start_instance(InstanceSettings("giver"))
    giver = instance.workers[0]
    run_until(world, lambda: any(copy.state is TaskState.RUNNING for copy in giver.loop.tasks.values()))
    world.leave(instance, None)
    run_until(
        world,
        lambda: (
            giver.member.machine.state is MemberState.JOINING
            and any(copy.state is TaskState.SUSPENDED for copy in giver.loop.tasks.values())
        ),
    )
    world.pause(giver, 3_000)
    run_until(world, lambda: sum(copy.state is TaskState.RUNNING for copy in taker.loop.tasks.values()) == 2)
    world.crash(taker)
    while world.clock.step(LIMIT_MS):
        pass
    return watcher


def test_its_state_is_completed_before_it_is_processed_again() -> None:
    """And not resumed: the other one has committed since."""
    history = play().history
    after = history[next(index for index, line in enumerate(history) if "crashes" in line) :]
    started = next(index for index, line in enumerate(after) if "giver/0 " in line and "started" in line)
    assert any("demote" in line for line in after[:started])
    assert not any("resume" in line for line in after[:started])


def test_resuming_it_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The history is one in which it matters."""
    monkeypatch.setattr(loop, "has_missed_round", lambda acted_on, generation: False)
    with pytest.raises(Broken, match="old state"):
        play()
