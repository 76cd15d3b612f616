"""A worker's restore thread: it follows changelogs, and finishes the state of tasks that become active.

A fluid model: the worker's rate is shared evenly by all tasks that are behind. Nothing ticks: the next event is when the
first of them gets where it is to be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from assignor.model import LagRecords, TaskId, WorkerId
from kstreams_worker.machine import Machine
from kstreams_worker.simulator.changelogs import Changelogs
from kstreams_worker.simulator.clock import Timer
from kstreams_worker.simulator.process import Process
from kstreams_worker.simulator.timing import Timing
from kstreams_worker.tasks.states import Role, TaskEvent, TaskState, task_machine

LOOK_AGAIN_MS = 30_000
"""When the lag of what falls ever further behind is looked at again."""
SHORTEST_STEP_MS = 10


@dataclass(slots=True, eq=False)
class Copy:
    """A task on one worker: the real state machine, and how much of the changelog its state has."""

    task: TaskId
    role: Role
    stateful: bool
    machine: Machine[TaskState, TaskEvent] = field(init=False)
    position: float = 0
    version: int = 0
    """Up to which committer's work the state is complete (`Changelog.version`), when it was processed here last."""
    lag: LagRecords = LagRecords(0)
    opened: bool = False
    """Whether this worker has its state open."""

    def __post_init__(self) -> None:
        self.machine = task_machine(str(self.task))

    @property
    def state(self) -> TaskState:
        return self.machine.state


class Disk:
    """An instance's state directory: what lies there, and which worker has which task open."""

    def __init__(self) -> None:
        self.closed: dict[TaskId, float] = {}
        """Position of each state that nobody has open."""
        self._open: dict[TaskId, WorkerId] = {}
        self._waiting: list[Callable[[], None]] = []

    def open(self, task: TaskId, worker: WorkerId) -> float | None:
        """The position of the state, or None while another worker has it open."""
        if self._open.setdefault(task, worker) != worker:
            return None
        return self.closed.pop(task, 0.0)

    def close(self, task: TaskId, worker: WorkerId, position: float) -> None:
        """The worker has the state open no longer. Whoever waited for it looks again."""
        if self._open.get(task) == worker:
            del self._open[task]
            self.closed[task] = position
            self._wake()

    def died(self, worker: WorkerId, positions: Mapping[TaskId, float]) -> None:
        """The worker's process is dead: the system has closed all it had open."""
        for task, position in positions.items():
            if self._open.get(task) == worker:
                self.closed[task] = position
        self._open = {task: other for task, other in self._open.items() if other != worker}
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for look_again in waiting:
            look_again()

    def call_when_closed(self, look_again: Callable[[], None]) -> None:
        """Call as soon as some state has been closed."""
        self._waiting.append(look_again)


class RestoreNews(Enum):
    """What the restore thread tells the loop."""

    CAUGHT_UP = auto()
    FELL_BEHIND = auto()
    FINISHED = auto()


@dataclass(slots=True, eq=False)
class _Followed:
    copy: Copy
    first_end: float | None = None
    finishing_at_ms: float | None = None
    """Set for a task that becomes active: when the committed offsets are known, at the earliest."""
    caught_up: bool = False


class Restorer:
    """What one worker follows. Tells the loop by `tell`."""

    def __init__(
        self,
        process: Process,
        worker: WorkerId,
        *,
        disk: Disk,
        logs: Changelogs,
        timing: Timing,
        tell: Callable[[Copy, RestoreNews], None],
    ) -> None:
        self._process, self._worker, self._disk, self._logs, self._timing = process, worker, disk, logs, timing
        self._tell = tell
        self._followed: dict[Copy, _Followed] = {}
        self._since_ms = 0
        self._timer: Timer | None = None
        self._looks_soon = False
        self._slowness = 1.0
        self.restored_records = 0.0

    def follow(self, copy: Copy) -> None:
        """Keep this copy up to date. Its state belongs to this thread from now on."""
        self._advance()
        self._followed[copy] = _Followed(copy)
        self._look_soon()

    def finish(self, copy: Copy) -> None:
        """Complete the copy's state and give it back."""
        self._advance()
        followed = self._followed.setdefault(copy, _Followed(copy))
        followed.finishing_at_ms = self._process.clock.now_ms + self._timing.take_over_ms
        self._look_soon()

    def drop(self, copy: Copy) -> None:
        """Stop following the copy and close it, after a moment."""
        self._advance()
        followed = self._followed.pop(copy, None)
        if followed is not None and copy.opened:
            self._process.after(self._timing.close_ms, lambda: self.close(copy))
        self._look_soon()

    def close(self, copy: Copy) -> None:
        """Close a copy that nobody follows or processes here."""
        if copy.opened and copy.stateful:
            self._disk.close(copy.task, self._worker, copy.position)
        copy.opened = False

    def slow_down(self, times: float) -> None:
        """Restore so many times slower than usual; 1 is the usual."""
        self._advance()
        self._slowness = times
        self.look()

    def measure(self) -> None:
        """Bring positions and lags up to date."""
        self._advance()
        for followed in self._followed.values():
            followed.copy.lag = self._lag(followed)

    def positions(self) -> dict[TaskId, float]:
        """What a process that dies now leaves on its disk."""
        self._advance()
        return {copy.task: copy.position for copy in self._followed if copy.opened}

    def stood_still(self) -> None:
        """The process goes on after a pause, in which nothing was restored."""
        self._since_ms = self._process.clock.now_ms

    def look(self) -> None:
        """Open what can be opened, say what has got where it was to be, and plan when to look again."""
        self._looks_soon = False
        self._advance()
        for followed in list(self._followed.values()):
            self._open(followed)
            if followed.copy.opened:
                self._judge(followed)
        self._plan()

    def _open(self, followed: _Followed) -> None:
        copy = followed.copy
        if copy.opened:
            return
        if not copy.stateful:
            copy.opened = True
            return
        position = self._disk.open(copy.task, self._worker)
        if position is None:
            self._disk.call_when_closed(self._look_soon)
        else:
            copy.position, copy.opened = position, True

    def _look_soon(self) -> None:
        """Once for all that happens at this moment."""
        if not self._looks_soon:
            self._looks_soon = True
            self._process.after(0, self.look)

    def _judge(self, followed: _Followed) -> None:
        copy, now_ms = followed.copy, self._process.clock.now_ms
        end = self._logs.end(copy.task) if copy.stateful else 0.0
        if followed.first_end is None:
            followed.first_end = end
        copy.lag = self._lag(followed)
        if followed.finishing_at_ms is not None:
            if now_ms >= followed.finishing_at_ms and copy.lag == 0:
                del self._followed[copy]
                self._tell(copy, RestoreNews.FINISHED)
            return
        caught_up = copy.lag <= self._timing.acceptable_lag and copy.position >= followed.first_end
        if caught_up != followed.caught_up:
            followed.caught_up = caught_up
            self._tell(copy, RestoreNews.CAUGHT_UP if caught_up else RestoreNews.FELL_BEHIND)

    def _lag(self, followed: _Followed) -> LagRecords:
        copy = followed.copy
        return LagRecords(math.ceil(max(0.0, self._logs.end(copy.task) - copy.position)) if copy.stateful else 0)

    def _behind(self) -> list[_Followed]:
        return [each for each in self._followed.values() if each.copy.opened and self._lag(each) > 0]

    def _advance(self) -> None:
        """Restore for the time that has passed. A process that stood still meanwhile has done nothing."""
        now_ms = self._process.clock.now_ms
        passed_ms, self._since_ms = now_ms - self._since_ms, now_ms
        if not self._process.alive or passed_ms <= 0:
            return
        behind = self._behind()
        for followed in behind:
            copy = followed.copy
            position = min(self._logs.end(copy.task), copy.position + self._rate(len(behind)) * passed_ms / 1000)
            self.restored_records += position - copy.position
            copy.position = position

    def _rate(self, tasks: int) -> float:
        return self._timing.restore_records_s / self._slowness / tasks

    def _plan(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_ms = self._process.clock.now_ms
        behind = self._behind()
        waits_ms: list[float] = [
            each.finishing_at_ms - now_ms
            for each in self._followed.values()
            if each.finishing_at_ms is not None and each.copy.opened and self._lag(each) == 0
        ]
        for followed in behind:
            log = self._logs.tasks[followed.copy.task]
            target = log.end
            if followed.finishing_at_ms is None:
                if followed.caught_up:
                    continue
                target = max(followed.first_end or 0.0, log.end - self._timing.acceptable_lag)
            gain = self._rate(len(behind)) - (log.records_s if log.runners else 0)
            missing = target - followed.copy.position
            waits_ms.append(min(LOOK_AGAIN_MS, 1000 * missing / gain) if gain > 0 else LOOK_AGAIN_MS)
        if waits_ms:
            self._timer = self._process.after(max(SHORTEST_STEP_MS, math.ceil(min(waits_ms))), self.look)
