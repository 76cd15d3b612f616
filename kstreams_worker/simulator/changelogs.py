"""What is true of each task, whoever believes what: its changelog, who processes it, since when nobody does."""

from __future__ import annotations

from dataclasses import dataclass, field

from assignor.model import TaskId, WorkerId
from kstreams_worker.simulator.clock import Clock


@dataclass(slots=True, eq=False)
class Changelog:
    """One task. It grows while the task is processed; `version` counts who has committed to it, one after the other."""

    stateful: bool
    records_s: float = 0
    end: float = 0
    version: int = 0
    runners: list[WorkerId] = field(default_factory=list)
    """Who processes it, in their own belief; only a member of the group can commit what it does."""
    grows_since_ms: int = 0
    stopped_at_ms: int | None = None
    """Since when nobody processes it; None while somebody does, and before the first did."""


class Changelogs:
    """All tasks of the topology."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.tasks: dict[TaskId, Changelog] = {}
        self.unavailable_ms: dict[TaskId, int] = {}
        """By task: time in which nobody processed it, in gaps that are over."""
        self.longest_gap_ms: dict[TaskId, int] = {}

    def add(self, task: TaskId, *, stateful: bool, records_s: float = 0) -> None:
        """A new task, with nothing in its changelog."""
        self.tasks[task] = Changelog(stateful, records_s)

    def end(self, task: TaskId) -> float:
        """The changelog's length by now, in records."""
        log = self.tasks[task]
        if log.runners and log.records_s:
            log.end += log.records_s * (self._clock.now_ms - log.grows_since_ms) / 1000
        log.grows_since_ms = self._clock.now_ms
        return log.end

    def started(self, task: TaskId, worker: WorkerId) -> None:
        """A worker processes the task, in its own belief."""
        self.end(task)
        log = self.tasks[task]
        log.runners.append(worker)
        if log.stopped_at_ms is not None:
            gap_ms = self._clock.now_ms - log.stopped_at_ms
            self.unavailable_ms[task] = self.unavailable_ms.get(task, 0) + gap_ms
            self.longest_gap_ms[task] = max(gap_ms, self.longest_gap_ms.get(task, 0))
            log.stopped_at_ms = None

    def stopped(self, task: TaskId, worker: WorkerId) -> None:
        """A worker processes the task no longer."""
        self.end(task)
        log = self.tasks[task]
        log.runners.remove(worker)
        if not log.runners:
            log.stopped_at_ms = self._clock.now_ms

    def forget_gaps(self) -> None:
        """Measure from now on."""
        self.unavailable_ms.clear()
        self.longest_gap_ms.clear()
