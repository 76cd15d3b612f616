"""One instance: the command `kstreams-worker run` in a process of its own, with its own state directory and status pages."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import psutil

from examples.demo.failure import DemoFailed
from examples.demo.settings import APPLICATION_ID, TOPOLOGY, DemoSettings
from kstreams_worker.devbroker import guardian

PROJECT = Path(__file__).parents[2]
STATUS_TIMEOUT_S = 2.0
POLL_S = 0.05


class Instance:
    """Starts with the constructor; ends by `terminate` or `destroy`, and also if the demo itself is killed."""

    def __init__(self, number: int, bootstrap_servers: str, settings: DemoSettings) -> None:
        self.number = number
        self.name = f"instance {number}"
        directory = settings.directory / f"instance-{number}"
        directory.mkdir(parents=True)
        self.log_file = directory / "log"
        self.expected_to_run = True
        self._address = ""
        self._arguments = [
            "run",
            TOPOLOGY,
            f"--application-id={APPLICATION_ID}",
            f"--bootstrap-servers={bootstrap_servers}",
            f"--num-standby-tasks={settings.standbys}",
            f"--state-dir={directory / 'state'}",
            "--http-port=0",
            f"--set=commit.interval.ms={settings.commit_interval_ms}",
            "--log-format=json",
        ]
        with self.log_file.open("wb") as log:
            # In a session of its own: Ctrl-C in the terminal is for the demo, which then ends its instances.
            self._guardian = subprocess.Popen(
                [sys.executable, "-I", "-S", guardian.__file__, "--", *_command(), *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=PROJECT,
                start_new_session=True,
            )
        assert self._guardian.stdout is not None
        with self._guardian.stdout as output:
            first_line = output.readline()
        if not first_line:
            raise DemoFailed(f"{self.name} could not be started; its log is {self.log_file}")
        self._pid = int(first_line)

    @property
    def command_line(self) -> str:
        """What one would type."""
        return shlex.join(["kstreams-worker", *self._arguments])

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._guardian.poll()

    def check(self) -> None:
        """Raises DemoFailed if it has ended without having been told to."""
        if self.expected_to_run and self.exit_code is not None:
            raise DemoFailed(f"{self.name} ended by itself with exit code {self.exit_code}")

    def workers(self) -> list[dict[str, Any]]:
        """Its workers and their tasks, from the status page `/tasks`; empty while it cannot tell."""
        if not self._address:
            self._address = self._find_address()
            if not self._address:
                return []
        try:
            with urlopen(f"{self._address}/tasks", timeout=STATUS_TIMEOUT_S) as answer:
                return list(json.load(answer)["workers"])
        except (URLError, OSError, ValueError):
            return []

    def worker_pids(self) -> list[int]:
        """Process ids of its workers, which the supervisor has spawned."""
        try:
            children = psutil.Process(self._pid).children()
            return [child.pid for child in children if any("spawn_main" in part for part in child.cmdline())]
        except psutil.NoSuchProcess:
            return []

    def kill_worker(self) -> int:
        """`kill -9` one worker process; returns its process id."""
        pids = self.worker_pids()
        if not pids:
            raise DemoFailed(f"{self.name} has no worker process to kill")
        os.kill(pids[0], signal.SIGKILL)
        return pids[0]

    def terminate(self) -> None:
        """Ask it to close: its workers commit, leave the group and end."""
        self.expected_to_run = False
        self._send(signal.SIGTERM)

    def destroy(self) -> None:
        """End it and its workers at once, whatever they do. Harmless when it has ended."""
        self.expected_to_run = False
        if self.exit_code is None:
            os.killpg(self._guardian.pid, signal.SIGKILL)
        self._guardian.wait()
        assert self._guardian.stdin is not None
        self._guardian.stdin.close()

    def log_lines(self) -> Iterator[str]:
        """Its log, made readable."""
        for line in self.log_file.read_text(errors="replace").splitlines():
            try:
                facts = json.loads(line)
                head = f"{facts.pop('time')[11:-1]} {facts.pop('level'):<7} {facts.pop('event')}"
            except (ValueError, LookupError, TypeError, AttributeError):
                yield line
            else:
                for name in ("logger", "group", "member"):
                    facts.pop(name, None)
                yield "  ".join([head, *(f"{name}={value}" for name, value in facts.items())])

    def _send(self, number: signal.Signals) -> None:
        assert self._guardian.stdin is not None
        try:
            self._guardian.stdin.write(f"{number.name}\n".encode())
            self._guardian.stdin.flush()
        except BrokenPipeError:  # it has ended
            return

    def _find_address(self) -> str:
        """The first line of the log says where the status pages are."""
        with self.log_file.open() as log:
            first = log.readline()
        try:
            return str(json.loads(first)["status"]) if first.endswith("\n") else ""
        except (ValueError, LookupError, TypeError):
            return ""


def end_all(instances: list[Instance], timeout_s: float) -> None:
    """Terminate them and wait; whatever is left then is killed."""
    for instance in instances:
        instance.terminate()
    deadline = time.monotonic() + timeout_s
    while any(instance.exit_code is None for instance in instances) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    for instance in instances:
        instance.destroy()


def _command() -> list[str]:
    """The installed command of this environment."""
    beside = Path(sys.executable).with_name("kstreams-worker")
    found = str(beside) if beside.exists() else shutil.which("kstreams-worker")
    return [found] if found else [sys.executable, "-m", "kstreams_worker"]
