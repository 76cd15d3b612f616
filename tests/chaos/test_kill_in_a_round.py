"""kill -9 while a round is open: the round goes on without the dead worker, and the next one mends what it left."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import topologies
from harness.application import ALL_TASKS, Application, application
from harness.instances import Instance
from harness.slow_member import SlowMember

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(240)]


@pytest.fixture
def counting(kafka: RunningKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Application]:
    with application(kafka, tmp_path) as app:
        monkeypatch.setenv("INPUT_TOPIC", app.input_topic)
        monkeypatch.setenv("OUTPUT_TOPIC", app.output_topic)
        yield app


def kill_worker(app: Application, instance: Instance) -> None:
    """kill -9 of its only worker; returns when there is a new one."""
    [killed] = instance.worker_pids()
    os.kill(killed, signal.SIGKILL)
    instance.wait_for_log("Worker ended unexpectedly; it is started again", exit_code=-signal.SIGKILL)
    app.until(lambda: instance.worker_pids() not in ([], [killed]), "a new worker is there")


def states(instance: Instance) -> list[str]:
    """The member states of its workers."""
    return [worker.get("state", "") for worker in (instance.status() or {"workers": []})["workers"]]


def test_the_leader_dies_while_others_have_yet_to_join(counting: Application) -> None:
    """A worker that stands still holds the round open; the leader is killed while it waits. Another one leads then."""
    app = counting
    app.feeder.burst(5_000).start()
    leader = app.start()
    app.until_balanced(leader)
    other = app.start()
    app.until_balanced(leader, other)
    app.until_counted()
    assert leader.log("round")[-1]["leader"]

    [held] = other.worker_pids()
    os.kill(held, signal.SIGSTOP)
    try:
        newcomer = app.start()
        app.until(lambda: states(leader) == ["joining"], "the leader waits for the round to be complete")
        kill_worker(app, leader)
    finally:
        os.kill(held, signal.SIGCONT)

    app.until_balanced(leader, other, newcomer)
    assert any(line["leader"] for one in (other, newcomer) for line in one.log("round"))
    app.until_counted()
    app.finish()


@pytest.mark.parametrize("victim", ["learner", "owner"])
def test_one_side_of_a_hand_over_dies(counting: Application, victim: str) -> None:
    """In the round of the hand-over, with an owner's task suspended and a learner ready. A slow member holds it open.

    The learners of the two tasks need not be ready at the same moment; the owner suspends what is.
    """
    app = counting
    with SlowMember(app.kafka.bootstrap_servers, app.id, topologies.counts()) as slow:
        app.feeder.burst(5_000).start()
        owner = app.start()
        app.until(lambda: owner.tasks() == ALL_TASKS, "the owner runs all tasks")
        app.until_counted()
        newcomer = app.start()
        app.until(slow.holds.is_set, "a learner is ready, and the round waits for the slow member")
        app.until(lambda: owner.tasks(state="suspended") != [], "a task that moves is suspended")

        kill_worker(app, owner if victim == "owner" else newcomer)
        slow.release()

        app.until_balanced(owner, newcomer)
        app.until_counted()
    app.finish()
