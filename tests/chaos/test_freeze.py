"""A worker that stands still past its session timeout comes back to a group that went on without it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from harness.application import application

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(240)]


def test_a_frozen_worker_is_fenced_and_joins_again(kafka: RunningKafka, tmp_path: Path) -> None:
    """SIGSTOP until others have its tasks, then SIGCONT: what it had not committed is dropped, and it gets tasks again."""
    with application(kafka, tmp_path, session_timeout_ms=3_000) as app:
        app.feeder.burst(5_000).start()
        first = app.start()
        app.until_balanced(first)
        second = app.start()
        app.until_balanced(first, second)
        app.until_counted()

        [frozen] = second.worker_pids()
        os.kill(frozen, signal.SIGSTOP)
        try:
            app.until_balanced(first)
            app.until_counted()
        finally:
            os.kill(frozen, signal.SIGCONT)

        app.until(
            lambda: second.log("membership lost; dropping all tasks") or second.log("starting over"),
            "the frozen worker finds out that it was replaced",
        )
        app.until_balanced(first, second)
        assert second.worker_pids() == [frozen], "it joins again in the same process"
        app.until_counted()
        app.finish()
