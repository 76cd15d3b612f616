"""Processes that are measured: each with a log, in a session of its own, and none outliving the benchmark."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil

from kstreams_worker.devbroker import guardian
from kstreams_worker.errors import KStreamsError

PROJECT = Path(__file__).parents[1]
STOP_TIMEOUT_S = 30.0
STATUS_TIMEOUT_S = 5.0
LOG_LINES_SHOWN = 20


class BenchmarkFailed(KStreamsError):
    """A process that is measured ended, or something took too long."""


class GuardedProcess:
    """Runs a command from its construction until `end`, or until the benchmark itself is gone, however it went."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        kept = {name: value for name, value in os.environ.items() if not name.startswith("KSTREAMS_")}
        with log.open("ab") as output:
            self._guardian = subprocess.Popen(
                [sys.executable, "-I", "-S", guardian.__file__, "--", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=PROJECT,
                env={**kept, **(environment or {})},
                start_new_session=True,
            )
        assert self._guardian.stdout is not None
        with self._guardian.stdout as output:
            first_line = output.readline()
        if not first_line:
            raise BenchmarkFailed(f"{name} could not be started:\n{self.log_tail()}")
        self.pid = int(first_line)

    def check(self) -> None:
        """Raises BenchmarkFailed if it has ended."""
        if self._guardian.poll() is not None:
            raise BenchmarkFailed(f"{self.name} ended with code {self._guardian.returncode}:\n{self.log_tail()}")

    def log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:])

    def descendants(self) -> list[psutil.Process]:
        """The process and all it has started."""
        try:
            process = psutil.Process(self.pid)
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def ask_to_end(self) -> None:
        """Send SIGTERM. Harmless when it has ended."""
        with contextlib.suppress(BrokenPipeError, ValueError):
            assert self._guardian.stdin is not None
            self._guardian.stdin.write(b"SIGTERM\n")
            self._guardian.stdin.flush()

    @property
    def has_ended(self) -> bool:
        return self._guardian.poll() is not None

    def end(self) -> None:
        """Ask it to end, and kill it and what it has started if it takes long. Harmless when it has ended."""
        self.ask_to_end()
        try:
            self._guardian.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._guardian.pid, signal.SIGKILL)
            self._guardian.wait()
        with contextlib.suppress(BrokenPipeError):
            self._guardian.stdin.close()


class TaskRunner(GuardedProcess):
    """A program that runs tasks of a group, and tells which."""

    def tasks(self) -> list[dict[str, Any]]:
        """Its tasks: `task`, `role`, `state`, `lag_records`; empty while it cannot tell."""
        raise NotImplementedError

    def kill(self) -> None:
        """`kill -9` everything, as if the host were lost."""
        for process in self.descendants():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


class Instance(TaskRunner):
    """An instance of the product: `kstreams-worker run`, a supervisor with one worker, with status pages."""

    def __init__(
        self,
        name: str,
        directory: Path,
        environment: Mapping[str, str],
        settings: Mapping[str, object],
        topology: str = "counts",
    ) -> None:
        directory.mkdir()
        super().__init__(
            name,
            run_command(directory / "state", {"http.port": 0, **settings}, topology),
            directory / "log",
            environment,
        )
        self._address = ""

    def tasks(self) -> list[dict[str, Any]]:
        """The tasks of its worker as the status page tells them, about once a second; empty while it cannot tell."""
        self._address = self._address or self._first_said("status")
        if not self._address:
            return []
        try:
            with urlopen(f"{self._address}/tasks", timeout=STATUS_TIMEOUT_S) as answer:
                workers = json.load(answer)["workers"]
        except (OSError, ValueError):
            return []
        return [task for worker in workers if worker["running"] for task in worker.get("tasks", ())]

    @property
    def process_id(self) -> str:
        """By which the group knows it; empty as long as it has not said so."""
        return self._first_said("instance").partition(" ")[0]

    def _first_said(self, fact: str) -> str:
        """The first line of the log has what one asks for in a bug report."""
        with self.log.open(errors="replace") as log:
            first = log.readline()
        try:
            return str(json.loads(first)[fact])
        except (ValueError, LookupError, TypeError):  # half written, or no such line
            return ""

    def kill_worker(self) -> None:
        """`kill -9` the worker process. Its supervisor lives, and starts it again."""
        workers = [
            child
            for child in psutil.Process(self.pid).children()
            if any("spawn_main" in part for part in child.cmdline())
        ]
        if not workers:
            raise BenchmarkFailed(f"{self.name} has no worker to kill:\n{self.log_tail()}")
        workers[0].kill()


def run_command(state: Path, settings: Mapping[str, object], topology: str = "counts") -> list[str]:
    """`kstreams-worker run` for one of the benchmarks' topologies."""
    given = (part for name, value in settings.items() for part in ("--set", f"{name}={value}"))
    run = [sys.executable, "-m", "kstreams_worker", "run", f"benchmarks.topology:{topology}"]
    return [*run, "--state-dir", str(state), "--log-format", "json", *given]
