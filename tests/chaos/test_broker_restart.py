"""The broker goes away and comes back: instances wait and go on."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.application import application

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


def test_instances_outlive_restarts_of_the_broker(own_kafka: RunningKafka, tmp_path: Path) -> None:
    """Once in an orderly way, once by kill -9, both times in the middle of the input."""
    broker = own_kafka.embedded
    assert broker is not None
    with application(own_kafka, tmp_path, session_timeout_ms=10_000) as app:
        app.feeder.burst(5_000).start()
        first, second = app.start(), app.start()
        app.until_balanced(first, second)
        app.until_counted()

        broker.restart_node(1)
        app.until_counted(3_000)

        broker.kill_node(1)
        broker.start_node(1)
        app.until_counted(3_000)
        app.until_balanced(first, second)
        app.finish()
