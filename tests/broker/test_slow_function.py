"""A slow function and a long backlog: when one scales up most, a newcomer must not have to wait for the end of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.application import ALL_TASKS, application

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

BACKLOG = 30_000
"""Of a millisecond each: a turn of the loop that took all it can get would last for ten seconds."""


def test_tasks_are_handed_over_in_the_middle_of_a_backlog(kafka: RunningKafka, tmp_path: Path) -> None:
    with application(kafka, tmp_path) as app:
        app.feeder.burst(BACKLOG)
        owner = app.start("harness.topologies:slow_counts")
        app.until(lambda: owner.tasks() == ALL_TASKS, "the owner runs all tasks")
        newcomer = app.start("harness.topologies:slow_counts")
        app.until_balanced(owner, newcomer)
        processed = sum(one.metric("kstreams_records_processed_total") for one in (owner, newcomer))
        assert processed < BACKLOG
        assert not owner.log("the loop is busy; joining with its tasks still active")
        app.finish()
