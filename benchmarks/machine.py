"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import confluent_kafka
import psutil

from kstreams_worker.devbroker.java import require_java
from kstreams_worker.observe.versions import versions

PROJECT = Path(__file__).parents[1]
BUSY_SHARE = 0.25
"""A load of more than this share of the cores, before anything is started, spoils the figures."""


def facts() -> dict[str, str | int | float]:
    """The machine, the versions, and how busy it is with other things."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        "processor": _processor(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load_average": round(os.getloadavg()[0], 2),
        **versions(),
        "librdkafka": confluent_kafka.libversion()[0],
        "java": require_java().description.partition("\n")[0],
        "commit": _commit(),
    }


def is_busy(found: dict[str, str | int | float]) -> bool:
    """Whether others use the machine."""
    return float(found["load_average"]) > BUSY_SHARE * int(found["cores"])


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    names = (
        [line for line in information.read_text().splitlines() if line.startswith("model name")]
        if information.is_file()
        else []
    )
    return names[0].partition(":")[2].strip() if names else platform.processor() or platform.machine()


def _commit() -> str:
    """The commit of the source tree, with a star if files differ from it."""
    run = subprocess.run(
        ["git", "describe", "--always", "--dirty=*"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    return run.stdout.strip() or "unknown"
