"""A user function that takes its time holds up its own worker, and nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.application import application

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

TOPOLOGY = "harness.topologies:counts_with_a_slow_step"


def test_a_blocked_worker_delays_no_hand_over_between_others(kafka: RunningKafka, tmp_path: Path) -> None:
    """While one worker is stuck in a record, another hands over a task to a newcomer.

    Capacities make it known who gives: of four tasks the one that gets stuck has one, and its share stays one.
    """
    blocker = tmp_path / "blocked"
    with application(kafka, tmp_path) as app:
        app.feeder.burst(5_000).start()
        giver = app.start(TOPOLOGY, instance_capacity=3)
        app.until_balanced(giver)
        stuck = app.start(TOPOLOGY, instance_capacity=1, environment={"BLOCKED_BY": str(blocker)})
        app.until(lambda: (len(giver.tasks()), len(stuck.tasks())) == (3, 1), "tasks are shared by capacity")
        app.until_counted()
        held = stuck.tasks()

        blocker.touch()
        app.until((tmp_path / "blocked.reached").exists, "the loop of one worker is stuck")
        newcomer = app.start(TOPOLOGY, instance_capacity=2)
        app.until(lambda: (len(giver.tasks()), len(newcomer.tasks())) == (2, 1), "the newcomer has its share")
        [moved] = newcomer.tasks()
        partition = int(moved.partition("_")[2])
        app.until_counted_in(partition, app.history.records_of_partition[partition] + 500)
        assert blocker.exists(), "all that happened while one worker was stuck"
        assert held == stuck.tasks()

        blocker.unlink()
        app.until_counted(1_000)
        assert held == stuck.tasks()
        app.finish()
