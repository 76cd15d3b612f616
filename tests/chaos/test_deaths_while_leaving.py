"""Somebody dies while an instance leaves."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from harness.application import application

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(240)]

SHORT_SESSION_MS = 3_000
PATIENCE_MS = 25_000
DELAYS_MS = 2_000
"""Less than it takes to notice that the leader is gone."""


def test_the_leader_is_killed_and_the_next_one_keeps_the_deadline(kafka: RunningKafka, tmp_path: Path) -> None:
    """Nobody begins to wait anew: the deadline that the killed leader remembered stays, but for the delays of messages."""
    with application(kafka, tmp_path, session_timeout_ms=SHORT_SESSION_MS) as app:
        app.feeder.burst(5_000).start()
        leader = app.start()
        app.until_balanced(leader)
        leaver = app.start()
        app.until_balanced(leader, leaver)
        heir = app.start()
        app.until_balanced(leader, leaver, heir)
        assert leader.log("round")[-1]["leader"]
        moving = leaver.tasks()
        with app.held_state(leader, heir, tasks=moving):
            app.scale_down(leaver, options=("--no-wait", "--timeout", f"{PATIENCE_MS}ms"))
            app.until(lambda: app.control_topic().memory.leaving_deadlines_ms, "the leader has published the deadline")
            before = app.control_topic().memory

            leader.kill()

            app.until(lambda: app.control_topic().memory.generation > before.generation, "another leads")
            after = app.control_topic().memory
            assert any(instance.log("round")[-1]["leader"] for instance in (leaver, heir))
            [(member, deadline_ms)] = before.leaving_deadlines_ms.items()
            assert list(after.leaving_deadlines_ms) == [member]
            assert deadline_ms - DELAYS_MS < after.leaving_deadlines_ms[member] <= deadline_ms
            assert leaver.wait() == 0, leaver.describe()
            [left] = leaver.log("leaving the group for good")
            assert left["reason"] == "others had the time they were given to learn the tasks"
        app.until_balanced(heir)
        app.until_counted()
        app.finish()


def test_a_leaving_worker_is_killed(kafka: RunningKafka, tmp_path: Path) -> None:
    """Its learners take over at once; its supervisor starts it again, and it leaves as it was told."""
    with application(kafka, tmp_path) as app:
        app.feeder.burst(5_000).start()
        first = app.start()
        app.until_balanced(first)
        leaver = app.start()
        app.until_balanced(first, leaver)
        moving = leaver.tasks()
        with app.held_state(first, tasks=moving):
            app.scale_down(leaver, options=("--no-wait",))
            app.until(lambda: first.log("round")[-1]["learning"].split() == moving, "its tasks are being learned")
            [victim] = leaver.worker_pids()
            os.kill(victim, signal.SIGKILL)
            leaver.wait_for_log("Worker ended unexpectedly; it is started again")
            assert leaver.wait() == 0, leaver.describe()
            assert leaver.log("leaving the group for good")
        app.until_balanced(first)
        assert not app.control_topic().orders, "the order is carried out"
        app.until_counted()
        app.finish()
