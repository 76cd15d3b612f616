"""Other stream processors that can do the jobs of `count` and `gaps`.

What they need is fetched into the user's cache when first asked for. Each has its defaults, but for the guarantee, the commit
interval and the compression, which are the job's.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import platformdirs

from benchmarks.contestants import Contestant
from benchmarks.gaps import GapJob, Runner, hand_over, lose_a_host, scale_up
from benchmarks.job import Job
from benchmarks.processes import BenchmarkFailed, TaskRunner
from benchmarks.topology import STATE_BYTES
from kstreams_worker.devbroker.java import require_java, require_maven

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements.txt"
STREAMS = HERE / "kafka_streams"
INSTALL_TIMEOUT_S = 900


def quix() -> Contestant:
    """Quix Streams. It has no record cache."""
    python = str(_environment())
    return Contestant("Quix Streams", lambda _: [python, str(HERE / "quix_count.py")], _every_update)


def faust() -> Contestant:
    """Faust. It has no record cache."""
    python = str(_environment())
    command = [python, str(HERE / "faust_count.py"), "worker", "--without-web", "--loglevel=warning"]
    return Contestant("Faust", lambda _: command, _every_update)


def kafka_streams() -> Contestant:
    """Kafka Streams with one thread; needs a JDK, since the program is compiled as it starts."""
    command = _streams_command("CountStreams")
    return Contestant("Kafka Streams", lambda _: command)


def kafka_streams_gaps() -> Runner:
    """The same for the job of `gaps`. It has no tool to scale down, and no process to be killed but its instance."""
    command = _streams_command("StateStreams")
    return Runner(
        "Kafka Streams",
        lambda name, job: StreamsInstance(name, command, job),
        lambda scenario: scenario.disturb in (scale_up, hand_over, lose_a_host),
    )


class StreamsInstance(TaskRunner):
    """A process with one stream thread."""

    def __init__(self, name: str, command: Sequence[str], job: GapJob) -> None:
        job.directory.mkdir()
        settings = {
            "SERVERS": job.servers,
            "GROUP": job.group,
            "SOURCE": job.source,
            "SINK": job.sink,
            "DIRECTORY": str(job.directory / "state"),
            "GUARANTEE": job.guarantee,
            "COMMIT_INTERVAL_MS": str(job.commit_interval_ms),
            "STANDBYS": str(job.standbys),
            "STATE_BYTES": str(STATE_BYTES),
        }
        super().__init__(
            name, command, job.directory / "log", {f"BENCH_{setting}": value for setting, value in settings.items()}
        )

    def tasks(self) -> list[dict[str, Any]]:
        """As it told last, a fifth of a second ago at most."""
        for line in reversed(self.log_tail().splitlines()):
            if line.startswith('{"tasks"') and line.endswith("}"):
                return list(json.loads(line)["tasks"])
        return []


def _streams_command(program: str) -> list[str]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [str(require_java().path), quiet, "-cp", f"{_jars()}/*", str(STREAMS / f"{program}.java")]


PEERS: dict[str, Callable[[], Contestant]] = {"kafka-streams": kafka_streams, "quix": quix, "faust": faust}


def _every_update(job: Job) -> bool:
    return job.every_update


def _environment() -> Path:
    """The interpreter of the peers' own environment: their libraries' versions need not agree with ours."""

    def install(directory: Path) -> None:
        _run([sys.executable, "-m", "venv", str(directory)])
        _run([str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS)])

    return _installed("peers", REQUIREMENTS, install) / "bin" / "python"


def _jars() -> Path:
    def install(directory: Path) -> None:
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={directory}"]
        _run([str(require_maven()), "--batch-mode", "--quiet", f"--file={STREAMS / 'pom.xml'}", *goal])

    return _installed("kafka-streams", STREAMS / "pom.xml", install)


def _installed(name: str, description: Path, install: Callable[[Path], None]) -> Path:
    """A directory in the user's cache for what a file describes; a changed file gives a new one."""
    digest = hashlib.sha256(description.read_bytes()).hexdigest()[:12]
    directory = Path(platformdirs.user_cache_dir("kstreams-worker"), "benchmarks", f"{name}-{digest}")
    complete = directory / ".complete"
    if not complete.is_file():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        install(directory)
        complete.touch()
    return directory


def _run(command: Sequence[str]) -> None:
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S)
    if run.returncode != 0:
        raise BenchmarkFailed(f"{' '.join(command)} failed:\n{(run.stderr or run.stdout)[-2000:]}")
