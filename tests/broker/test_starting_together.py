"""The workers of a new instance join their group together, and the tasks are spread over them."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from harness.application import Application, application
from harness.instances import Instance

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

WORKERS = 4


def start(app: Application) -> Instance:
    """An instance of so many workers; none of them has joined before the supervisor said so."""
    instance = app.start(num_workers=WORKERS)
    instance.wait_for_log("round", count=WORKERS)
    events = [line["event"] for line in instance.lines()]
    assert events.index("Workers join the group") < events.index("round")
    joining = [line["workers"].split(", ") for line in instance.log("Workers join the group")]
    assert len(joining) < WORKERS, "one after the other"
    assert sorted(worker for together in joining for worker in together) == [str(index) for index in range(WORKERS)]
    return instance


def test_a_new_instance_joins_as_a_whole(kafka: RunningKafka, tmp_path: Path) -> None:
    """Two of them share the tasks, and a worker that is started again waits for nobody."""
    with application(kafka, tmp_path, partitions=2 * WORKERS) as app:
        app.feeder.burst(2_000).start()
        first = start(app)
        app.until(lambda: first.tasks_of_workers() == [2] * WORKERS, "its workers share all tasks")
        second = start(app)
        for instance in (first, second):
            app.until(lambda instance=instance: instance.tasks_of_workers() == [1] * WORKERS, "the two share all tasks")

        psutil.Process(second.worker_pids()[0]).kill()
        second.wait_for_log("Starting the worker again")
        second.wait_for_log("round", count=len(second.log("round")) + 1)
        app.until(lambda: second.tasks_of_workers() == [1] * WORKERS, "the two share all tasks again")
        assert len(second.log("Workers join the group")) < WORKERS
        app.finish()
