"""The files of a worker's tasks: what is long gone is deleted, what is open or recent is not, and sizes are told."""

from __future__ import annotations

import os
from pathlib import Path

from assignor.model import TaskId
from kstreams_worker import StreamsBuilder
from kstreams_worker.config import Settings
from kstreams_worker.observe.metrics import WorkerMetrics
from kstreams_worker.runtime.task_files import TaskFiles
from kstreams_worker.tasks.states import Role
from kstreams_worker.tasks.task import Task


def counting_files(state_dir: Path) -> TaskFiles:
    builder = StreamsBuilder()
    builder.stream("in", key=bytes, value=bytes).group_by_key().count(materialized="counts").to_stream().to("out")
    settings = Settings(
        application_id="app", bootstrap_servers="localhost:9092", state_dir=state_dir, state_cleanup_delay_ms=60_000
    )
    return TaskFiles(settings, builder.build())


def test_sizes_on_disk_are_told_by_store(tmp_path: Path) -> None:
    """Of the tasks that are open, together: of others another worker tells."""
    files, metrics = counting_files(tmp_path), WorkerMetrics()
    tasks = [Task(TaskId(0, partition), Role.ACTIVE, True, ()) for partition in range(3)]
    for task in tasks:
        assert files.open(task)
    files.close(tasks[0])
    files.observe(metrics)
    stores = [tmp_path / "app" / name / "counts" for name in ("0_1", "0_2")]
    size_bytes = sum(file.stat().st_size for store in stores for file in store.iterdir())
    assert size_bytes > 0
    assert f'kstreams_state_bytes{{store="counts"}} {float(size_bytes)}\n' in metrics.render()
    for task in tasks[1:]:
        files.close(task)


def test_only_state_that_nobody_has_had_open_for_the_delay_is_deleted(tmp_path: Path) -> None:
    """One task is open, one was closed just now, one was closed long ago."""
    files = counting_files(tmp_path)
    tasks = [Task(TaskId(0, partition), Role.ACTIVE, True, ()) for partition in range(3)]
    for task in tasks:
        assert files.open(task)
    for task in tasks[1:]:
        files.close(task)
    for long_ago in (tmp_path / "app" / "0_0", tmp_path / "app" / "0_2"):
        os.utime(long_ago, (0, 0))
    files.clean()
    assert {path.name for path in (tmp_path / "app").glob("0_*")} == {"0_0", "0_1"}
    files.close(tasks[0])
