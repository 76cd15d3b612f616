"""kill -9: nothing is lost, nothing is counted twice, and others take over without waiting for what they need not wait for."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest
from harness.application import ALL_TASKS, Application, application
from harness.history import check_at_least_once, check_every_update
from harness.waiting import DEADLINE_S

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(240)]

SHORT_SESSION_MS = 3_000


def test_a_killed_worker_costs_no_session_timeout(kafka: RunningKafka, tmp_path: Path) -> None:
    """Its supervisor takes it out of the group at once and starts it again; its session would have lasted for minutes."""
    with application(kafka, tmp_path) as app:
        app.feeder.burst(5_000).start()
        pair = app.start(num_workers=2)
        other = app.start()
        app.until(lambda: sorted(pair.tasks() + other.tasks()) == ALL_TASKS, "all tasks run")
        app.until(lambda: len(pair.worker_pids()) == 2 and len(pair.tasks()) >= 2, "two workers share the tasks")
        app.until_counted()

        killed = pair.worker_pids()[0]
        os.kill(killed, signal.SIGKILL)

        pair.wait_for_log("Worker ended unexpectedly; it is started again", exit_code=-signal.SIGKILL)
        app.until(lambda: len(pair.worker_pids()) == 2 and killed not in pair.worker_pids(), "a new worker is there")
        app.until(lambda: sorted(pair.tasks() + other.tasks()) == ALL_TASKS, "all tasks run again")
        app.until_counted()
        app.finish()


@pytest.mark.parametrize("standbys", [0, 1])
def test_a_killed_instance_is_replaced_by_the_others(kafka: RunningKafka, tmp_path: Path, standbys: int) -> None:
    """Without standbys its tasks are opened anew and restored; with them the warm copies go on."""
    with application(kafka, tmp_path, session_timeout_ms=SHORT_SESSION_MS, num_standby_tasks=standbys) as app:
        app.feeder.burst(5_000).start()
        first, second = app.start(), app.start()
        app.until_balanced(first, second)
        if standbys:
            for one, other in ((first, second), (second, first)):
                app.until(
                    lambda one=one, other=other: one.tasks("standby", "ready") == other.tasks(), "standbys are warm"
                )
        app.until_counted()
        lost, rounds_before = second.tasks(), len(first.log("round"))

        second.kill()

        app.until_balanced(first)
        takeover = next(line for line in first.log("round")[rounds_before:] if set(lost) <= set(line["active"].split()))
        step = "promote" if standbys else "open"
        assert takeover[step].split() == lost, takeover
        app.until_counted()
        app.finish()


def test_two_instances_die_at_once(kafka: RunningKafka, tmp_path: Path) -> None:
    """The one that is left takes all tasks, those with and those without a copy on it."""
    with application(kafka, tmp_path, session_timeout_ms=SHORT_SESSION_MS, num_standby_tasks=1) as app:
        app.feeder.burst(5_000).start()
        first, second, third = app.start(), app.start(), app.start()
        app.until_balanced(first, second, third)
        app.until_counted()

        first.kill()
        second.kill()

        app.until_balanced(third)
        app.until_counted()
        second.start()
        app.until_balanced(second, third)
        app.finish()


def test_a_new_groups_leader_is_lost(kafka: RunningKafka, tmp_path: Path) -> None:
    """Whoever leads next knows whose transactions to end, though the leader led no round since the control topic was there.

    Otherwise the lost tasks would stand still until those transactions time out.
    """
    quarter_of_an_hour_ms = 900_000
    with application(
        kafka, tmp_path, session_timeout_ms=SHORT_SESSION_MS, transaction_timeout_ms=quarter_of_an_hour_ms
    ) as app:
        app.feeder.burst(5_000).start()
        both = (app.start(), app.start())
        app.until_balanced(*both)
        leader, other = sorted(both, key=lambda instance: instance.log("round")[-1]["leader"], reverse=True)
        generation = leader.log("round")[-1]["generation"]

        def remembered() -> bool:
            memory = app.control_topic().memory
            return memory is not None and memory.generation == generation

        app.until(remembered, f"the control topic tells what the leader of generation {generation} knows")
        app.until_counted()

        leader.kill()

        app.until_balanced(other)
        assert other.log("fencing a worker that is gone"), other.describe()
        app.until_counted()
        app.finish()


def test_workers_whose_supervisor_dies_close_in_order(kafka: RunningKafka, tmp_path: Path) -> None:
    """They commit and leave, which costs no session timeout, and the state directory is free for a successor."""
    with application(kafka, tmp_path) as app:
        app.feeder.burst(5_000).start()
        pair = app.start(num_workers=2)
        other = app.start()
        app.until(lambda: sorted(pair.tasks() + other.tasks()) == ALL_TASKS, "all tasks run")
        app.until(lambda: len(pair.tasks_of_workers()) == 2, "two workers share the tasks")
        app.until_counted()
        orphans = [psutil.Process(pid) for pid in pair.worker_pids()]

        pair.kill_supervisor()

        app.until_balanced(other)
        psutil.wait_procs(orphans, DEADLINE_S)
        assert not any(orphan.is_running() for orphan in orphans)
        assert len(pair.log("worker closed")) == 2
        app.until_counted()
        pair.start()
        app.until(lambda: len(pair.tasks()) >= 2, "the successor has tasks")
        app.until(lambda: sorted(pair.tasks() + other.tasks()) == ALL_TASKS, "all tasks run again")
        app.finish()


def scale_up_and_kill_the_first(app: Application) -> None:
    app.feeder.burst(5_000).start()
    first = app.start()
    app.until_balanced(first)
    second = app.start()
    app.until_balanced(first, second)
    app.until_counted()
    first.kill()
    app.until_balanced(second)
    app.until_counted()


def test_every_update_survives_a_kill_without_a_cache(kafka: RunningKafka, tmp_path: Path) -> None:
    """cache.max.bytes=0 sends each update on: the output is 1, 2, 3, ... for each key, whatever happened."""
    with application(kafka, tmp_path, session_timeout_ms=SHORT_SESSION_MS, cache_max_bytes=0) as app:
        scale_up_and_kill_the_first(app)
        app.finish(check_every_update)


def test_at_least_once_loses_nothing(kafka: RunningKafka, tmp_path: Path) -> None:
    """After a kill, what was sent since the last commit is sent again: counts may be too high, never too low."""
    with application(kafka, tmp_path, session_timeout_ms=SHORT_SESSION_MS, processing_guarantee="at_least_once") as app:
        scale_up_and_kill_the_first(app)
        app.finish(check_at_least_once)
