"""Other stream processors that can do the job of `count`. What they need is fetched into the user's cache when first asked for.

Each has its defaults, but for the guarantee, the commit interval and the compression, which are the job's.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import platformdirs

from benchmarks.contestants import Contestant
from benchmarks.job import Job
from benchmarks.processes import BenchmarkFailed
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
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    command = [str(require_java().path), quiet, "-cp", f"{_jars()}/*", str(STREAMS / "CountStreams.java")]
    return Contestant("Kafka Streams", lambda _: command)


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
