"""Instances come and go while the input flows; the output stays what a recount of the input says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.application import Application, application

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]


@pytest.fixture
def counting(kafka: RunningKafka, tmp_path: Path) -> Iterator[Application]:
    with application(kafka, tmp_path) as app:
        yield app


def test_one_two_three_instances_and_back_to_one(counting: Application) -> None:
    """From empty to three instances by learners, then down by clean closes, which cost no session timeout."""
    counting.feeder.burst(5_000).start()
    first = counting.start()
    counting.until_balanced(first)
    counting.until_counted()

    second = counting.start()
    counting.until_balanced(first, second)
    third = counting.start()
    counting.until_balanced(first, second, third)
    counting.until_counted()

    assert first.close() == 0, first.describe()
    counting.until_balanced(second, third)
    assert second.close() == 0, second.describe()
    counting.until_balanced(third)
    counting.finish()


def test_two_workers_share_an_instance_and_a_restart_uses_its_local_state(counting: Application) -> None:
    """Closed and started again it reads no changelog; an instance without state reads all of it."""
    counting.feeder.burst(5_000)
    first = counting.start(num_workers=2)
    counting.until(lambda: first.tasks_of_workers() == [2, 2], "each worker runs two tasks")
    counting.until_complete()

    assert first.close() == 0, first.describe()
    first.start()
    counting.until(lambda: first.tasks_of_workers() == [2, 2], "each worker runs two tasks again")
    assert first.metric("kstreams_restore_records_total") == 0

    counting.feeder.burst(1_000)
    counting.until_complete()
    assert first.close() == 0, first.describe()
    other = counting.start()
    counting.until_balanced(other)
    keys = len(counting.feeder.stop())
    assert other.metric("kstreams_restore_records_total") >= keys
    counting.finish()
