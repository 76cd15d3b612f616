"""An instance of the product, run by the real command in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import orjson
import psutil

from harness.waiting import DEADLINE_S, until

TESTS = Path(__file__).parents[1]
"""Where the modules of the harness's topologies are found; the current directory of the instances."""
LOG_TAIL_LINES = 25


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment without settings of the product, so that only the test decides."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KSTREAMS_")}
    return {**kept, **more}


def command_line(*arguments: str) -> list[str]:
    """The product's command, run by this interpreter."""
    return [sys.executable, "-m", "kstreams_worker", *arguments]


def run_command(
    *arguments: str,
    cwd: Path = TESTS,
    timeout_s: float = DEADLINE_S,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the product's command to its end."""
    return subprocess.run(
        command_line(*arguments),
        cwd=cwd,
        env=clean_environment(**(environment or {})),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


class Instance:
    """One `kstreams-worker run`, with its own state directory and status pages; its log is kept as a file of JSON lines.

    It runs in a session of its own, so that `kill` reaches the supervisor and all workers at the same moment.
    """

    def __init__(
        self,
        name: str,
        topology: str,
        settings: Mapping[str, object],
        directory: Path,
        *,
        environment: Mapping[str, str],
        cwd: Path = TESTS,
    ) -> None:
        self.name = name
        self.log_path = directory / f"{name}.log"
        self.state_dir = directory / f"{name}-state"
        self._command = command_line(
            "run",
            topology,
            "--state-dir",
            str(self.state_dir),
            "--http-port",
            "0",
            "--log-format",
            "json",
            *(part for setting, value in settings.items() for part in ("--set", f"{setting}={value}")),
        )
        self._environment = clean_environment(**environment)
        self._cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._log_from = 0

    # -- its life -----------------------------------------------------------------------------------------------------

    def start(self) -> Instance:
        """Start it, or start it again on the same state directory. `log` shows only what this run says."""
        self._log_from = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._cwd,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def terminate(self) -> None:
        """Ask it to close (SIGTERM to the supervisor, as a container platform does)."""
        self._started.send_signal(signal.SIGTERM)

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        """Wait for its end; returns the exit code."""
        try:
            return self._started.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"instance {self.name} has not ended within {deadline_s:g} s\n{self.describe()}"
            ) from None

    def close(self) -> int:
        """Terminate and wait; returns the exit code."""
        self.terminate()
        return self.wait()

    def kill(self) -> None:
        """kill -9 of the supervisor and all workers: what the loss of a host looks like."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(DEADLINE_S)

    def kill_supervisor(self) -> None:
        """kill -9 of the supervisor alone: its workers are left to themselves."""
        self._started.kill()
        self._started.wait(DEADLINE_S)

    @property
    def process_id(self) -> str:
        """The instance's id, kept in its state directory: how tools name it, as all instances here share a host."""
        return str(self.wait_for_log("Starting")[0]["instance"].partition(" ")[0])

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"instance {self.name} was not started"
        return self._process

    # -- its workers --------------------------------------------------------------------------------------------------

    def worker_pids(self) -> list[int]:
        """Process ids of its worker processes, oldest first."""
        found = []
        for child in psutil.Process(self._started.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if any("spawn_main" in part for part in child.cmdline()):
                    found.append((child.create_time(), child.pid))
        return [pid for _, pid in sorted(found)]

    def status(self) -> dict[str, Any] | None:
        """What `/tasks` says; None while nothing answers. Workers report about once a second."""
        text = self._get("/tasks")
        return None if text is None else orjson.loads(text)

    def tasks(self, role: str = "active", state: str = "running") -> list[str]:
        """The tasks in this role and state, over all workers that run."""
        status = self.status() or {"workers": []}
        return sorted(
            task["task"]
            for worker in status["workers"]
            if worker["running"]
            for task in worker.get("tasks", ())
            if (task["role"], task["state"]) == (role, state)
        )

    def tasks_of_workers(self) -> list[int]:
        """The number of active tasks that each worker runs, of those that have any."""
        status = self.status() or {"workers": []}
        running = [
            sum((task["role"], task["state"]) == ("active", "running") for task in worker.get("tasks", ()))
            for worker in status["workers"]
            if worker["running"]
        ]
        return sorted(number for number in running if number)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of all series of this name with these labels."""
        total = 0.0
        for line in (self._get("/metrics") or "").splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(f'{key}="{text}"' in series for key, text in labels.items()):
                total += float(value)
        return total

    def _get(self, page: str) -> str | None:
        address = next((event["status"] for event in self.log("Starting")), None)
        if address is None or not self.is_running:
            return None
        try:
            with httpx.Client(trust_env=False, timeout=10.0) as client:
                return client.get(address + page).text
        except httpx.TransportError:
            return None

    # -- its log ------------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """All that this run has written."""
        if not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as file:
            file.seek(self._log_from)
            return file.read().decode(errors="replace")

    def lines(self) -> list[dict[str, Any]]:
        """The JSON lines of its log. A last line that is half written is left out."""
        complete = self.text().rpartition("\n")[0]
        return [orjson.loads(line) for line in complete.splitlines() if line.startswith("{")]

    def log(self, event: str) -> list[dict[str, Any]]:
        """The log's lines of this event."""
        return [line for line in self.lines() if line["event"] == event]

    def wait_for_log(self, event: str, count: int = 1, **facts: object) -> list[dict[str, Any]]:
        """Wait until the log has so many lines of this event with these facts; returns them."""

        def found() -> list[dict[str, Any]]:
            return [line for line in self.log(event) if facts.items() <= line.items()]

        until(lambda: len(found()) >= count, f"{self.name} logs {event!r} {facts or ''}", explain=self.describe)
        return found()

    def wait_for_level(self, level: str) -> list[dict[str, Any]]:
        """Wait until the log has a line of this level; returns all of them."""

        def found() -> list[dict[str, Any]]:
            return [line for line in self.lines() if line["level"] == level]

        until(found, f"{self.name} logs a line of level {level}", explain=self.describe)
        return found()

    def assert_no_traceback(self) -> None:
        """Errors are told in one line."""
        assert "Traceback" not in self.text(), self.text()

    def describe(self) -> str:
        """Its state, its tasks and the end of its log."""
        state = "running" if self.is_running else f"ended: {self._process and self._process.returncode}"
        held = [
            f"worker {worker['worker']}: "
            + " ".join(f"{task['task']}:{task['role']}:{task['state']}" for task in worker.get("tasks", ()))
            for worker in (self.status() or {"workers": []})["workers"]
        ]
        tail = "\n".join(self.text().splitlines()[-LOG_TAIL_LINES:])
        return f"--- instance {self.name} ({state}); {'; '.join(held)}\n{tail}\n"
