"""What a worker says of itself about once a second, and the board on which the supervisor keeps the newest of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from kstreams_worker.observe.metrics import SUPERVISOR, merge_texts


class TaskStatus(TypedDict):
    """One task of a worker. `restored` and `end` are changelog offsets, None where the task has no state to restore."""

    task: str
    role: str
    state: str
    lag_records: int | None
    restored: int | None
    end: int | None


class WorkerStatus(TypedDict):
    """A worker's report. All of it is JSON-able."""

    state: str
    """The member's state, in the words of its state table."""
    ready: bool
    """It has joined, and none of its active tasks is in its first restore."""
    member_id: str
    """As the broker knows it; empty before the first round."""
    generation: int
    loop_turns: int
    """Turns of the processing loop so far: it grows as long as the loop is alive, whatever other threads do."""
    tasks: list[TaskStatus]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of a health check, with a sentence for each thing that is wrong."""

    ok: bool
    problems: tuple[str, ...]


@dataclass(slots=True)
class _Entry:
    running: bool
    advanced_at: float
    """When, by the board's clock, the loop was last seen to have turned."""
    status: WorkerStatus | None = None
    metrics: str = ""


class StatusBoard:
    """The newest report of each worker. The supervisor's loop writes, the HTTP thread reads.

    `clock` gives seconds that never go back.
    """

    def __init__(
        self,
        group: str,
        workers: int,
        loop_deadline_seconds: float,
        supervisor_metrics: Callable[[], str] = lambda: "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._group = group
        self._loop_deadline_seconds = loop_deadline_seconds
        self._supervisor_metrics = supervisor_metrics
        self._clock = clock
        self._lock = threading.Lock()
        self._entries = {index: _Entry(running=False, advanced_at=clock()) for index in range(workers)}

    def worker_started(self, index: int) -> None:
        """A new process runs for this worker. It has one deadline's time for its first turn."""
        with self._lock:
            self._entries[index] = _Entry(running=True, advanced_at=self._clock())

    def worker_ended(self, index: int) -> None:
        """The process is gone, and with it its series; the last status stays, to be looked at."""
        with self._lock:
            entry = self._entries[index]
            entry.running = False
            entry.metrics = ""

    def report(self, index: int, status: WorkerStatus, metrics: str) -> None:
        """Take over a worker's report."""
        with self._lock:
            entry = self._entries[index]
            if entry.status is None or entry.status["loop_turns"] != status["loop_turns"]:
                entry.advanced_at = self._clock()
            entry.status = status
            entry.metrics = metrics

    def status_of(self, index: int) -> WorkerStatus | None:
        """The last report of a worker."""
        with self._lock:
            return self._entries[index].status

    def liveness(self) -> Verdict:
        """Whether the loop of each running worker has turned within its deadline.

        A worker that has died does not count: the supervisor restarts it, and restarting the rest would not help.
        """
        now = self._clock()
        with self._lock:
            stalls = {index: now - entry.advanced_at for index, entry in self._entries.items() if entry.running}
        problems = tuple(
            f"worker {index}: its loop has not turned for {stalled:.0f} s"
            for index, stalled in stalls.items()
            if stalled > self._loop_deadline_seconds
        )
        return Verdict(not problems, problems)

    def readiness(self) -> Verdict:
        """Whether every worker has joined and has no active task in its first restore."""
        with self._lock:
            problems = tuple(
                problem for index, entry in self._entries.items() if (problem := _unready(index, entry)) is not None
            )
        return Verdict(not problems, problems)

    def snapshot(self) -> dict[str, Any]:
        """All workers and their tasks, JSON-able."""
        with self._lock:
            workers = [
                {"worker": index, "running": entry.running, **(entry.status or {})}
                for index, entry in self._entries.items()
            ]
        return {"group": self._group, "workers": workers}

    def metrics_text(self) -> str:
        """The series of the supervisor and of all running workers, as Prometheus' text."""
        with self._lock:
            texts: Mapping[str, str] = {str(index): entry.metrics for index, entry in self._entries.items()}
        return merge_texts({SUPERVISOR: self._supervisor_metrics(), **texts}, self._group)


def _unready(index: int, entry: _Entry) -> str | None:
    if not entry.running:
        return f"worker {index}: not running"
    if entry.status is None:
        return f"worker {index}: starting"
    if not entry.status["ready"]:
        return f"worker {index}: {entry.status['state']}"
    return None
