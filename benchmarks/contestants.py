"""Who takes part in `count`, and how each is started."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.job import Job
from benchmarks.processes import run_command


@dataclass(frozen=True, slots=True)
class Contestant:
    """A program that does a `Job`. `can` tells which jobs it is able to do."""

    name: str
    command: Callable[[Job], list[str]]
    can: Callable[[Job], bool] = lambda _: True


def _yardstick(_: Job) -> list[str]:
    return [sys.executable, "-m", "benchmarks.yardstick"]


def _worker(job: Job) -> list[str]:
    settings: dict[str, object] = {
        "application.id": job.group,
        "bootstrap.servers": job.servers,
        "processing.guarantee": job.guarantee,
        "commit.interval.ms": job.commit_interval_ms,
    }
    if job.every_update:
        settings["cache.max.bytes"] = 0
    return run_command(job.directory, settings)


YARDSTICK = Contestant("hand-written loop", _yardstick)
WORKER = Contestant("kstreams-worker", _worker)
