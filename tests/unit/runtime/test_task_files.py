"""The files of a worker's tasks: what is long gone is deleted, what is open or recent is not."""

from __future__ import annotations

import os
from pathlib import Path

from assignor.model import TaskId
from kstreams_worker import StreamsBuilder
from kstreams_worker.config import Settings
from kstreams_worker.runtime.task_files import TaskFiles
from kstreams_worker.tasks.states import Role
from kstreams_worker.tasks.task import Task


def test_only_state_that_nobody_has_had_open_for_the_delay_is_deleted(tmp_path: Path) -> None:
    """One task is open, one was closed just now, one was closed long ago."""
    builder = StreamsBuilder()
    builder.stream("in", key=bytes, value=bytes).group_by_key().count(materialized="counts").to_stream().to("out")
    settings = Settings(
        application_id="app", bootstrap_servers="localhost:9092", state_dir=tmp_path, state_cleanup_delay_ms=60_000
    )
    files = TaskFiles(settings, builder.build())
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
