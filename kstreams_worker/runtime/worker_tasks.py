"""The tasks of one worker, and the steps that are taken with them: opened, taken over, suspended, resumed, given up, closed.

Which steps is for `tasks.plan` to say. A task that runs or is suspended is held here, and its stores with it; all others are
with the restore thread, which says when one of them is complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog

from assignor.model import Assignment, CopyState, TaskId, WorkerId
from kstreams_worker.io.failures import ProducerLost
from kstreams_worker.observe.metrics import WorkerMetrics
from kstreams_worker.restore.events import CaughtUp, Closed, FellBehind, Finished, RestoreEvent, TaskFailed
from kstreams_worker.runtime.processor import Processor
from kstreams_worker.tasks.plan import Step, TaskStep, TaskView
from kstreams_worker.tasks.states import Role, TaskEvent, TaskState
from kstreams_worker.tasks.task import Task

log = structlog.get_logger(__name__)

HELD_STATES = (TaskState.RUNNING, TaskState.SUSPENDED)
"""Of tasks whose stores belong to the processing loop."""


class Restorer(Protocol):
    """What is needed of the restore thread."""

    def follow(self, task: Task) -> None: ...
    def finish(self, task: Task, fence: Iterable[WorkerId] = ()) -> None: ...
    def drop(self, task: Task) -> None: ...
    def close(self, task: Task) -> None: ...


@dataclass(frozen=True)
class TaskParts:
    """What tasks are made with and handed to. `new_processor` is called again when its producer is lost."""

    restorer: Restorer
    new_processor: Callable[[], Processor]
    new_task: Callable[[TaskId, Role], Task]
    bind: Callable[[Task], None]
    """Give a task whose state is complete its program."""
    close_task: Callable[[Task], None]
    dormant: Callable[[], Mapping[TaskId, CopyState]]
    metrics: WorkerMetrics


class WorkerTasks:
    """Owned by the processing loop. `on_started` is called with each task that begins to process, or goes on."""

    def __init__(self, parts: TaskParts, on_started: Callable[[Task], None]) -> None:
        self._parts = parts
        self._on_started = on_started
        self.processor = parts.new_processor()
        """What processes those that run."""
        self.by_id: dict[TaskId, Task] = {}
        self._dormant = parts.dormant()
        self._closing: dict[TaskId, CopyState] = {}
        """State of tasks that were given up and are being closed: as good as dormant, and told at once. A leader that does not
        know of it gives the task to somebody who has less of it."""

    def views(self) -> dict[TaskId, TaskView]:
        """The facts of each task now."""
        return {task_id: task.view() for task_id, task in self.by_id.items()}

    @property
    def left_on_disk(self) -> dict[TaskId, CopyState]:
        """State of tasks that this worker does not have, or is about to have closed."""
        return {**self._dormant, **self._closing}

    def suspend(self, tasks: list[Task]) -> None:
        """Stop tasks that run, after one commit of everything."""
        if not self.processor.commit():
            # What these tasks sent is in the same transaction as everybody's: undone for all, or for none.
            self.processor.abort()
        self.processor.stop(tasks)
        for task in tasks:
            task.machine.fire(TaskEvent.SUSPEND)
            task.stopped_at = time.monotonic()

    # -- an assignment's steps --------------------------------------------------------------------------------------

    def take(self, steps: Iterable[TaskStep], assignment: Assignment) -> None:
        """Take the steps of a plan, in their order. What runs and is given up is committed before, all together."""
        given_up = [self.by_id[step.task] for step in steps if step.step in (Step.CLOSE, Step.DEMOTE)]
        running = [task for task in given_up if task.state is TaskState.RUNNING]
        if running:
            self.suspend(running)
        for step in steps:
            self._take(step, assignment)

    def _take(self, step: TaskStep, assignment: Assignment) -> None:
        if step.step is Step.OPEN:
            self._open(step.task, step.role, assignment)
            return
        task = self.by_id[step.task]
        match step.step:
            case Step.CLOSE:
                self._close(task)
            case Step.DEMOTE:
                _unbind(task)
                task.role = step.role
                task.machine.fire(TaskEvent.DEMOTE)
                self._parts.restorer.follow(task)
            case Step.RESUME:
                task.machine.fire(TaskEvent.RESUME)
                self.processor.resume(task)
                self._note_start(task)
            case Step.REFRESH:
                _unbind(task)
                task.machine.fire(TaskEvent.DEMOTE)
                self._finish(task, assignment)
            case Step.RELABEL:
                task.role = step.role
            case Step.PROMOTE:
                task.role = Role.ACTIVE
                self._finish(task, assignment)

    def _open(self, task_id: TaskId, role: Role, assignment: Assignment) -> None:
        task = self._parts.new_task(task_id, role)
        self.by_id[task_id] = task
        if role is Role.ACTIVE:
            self._finish(task, assignment)
        else:
            task.machine.fire(TaskEvent.FOLLOW)
            self._parts.restorer.follow(task)

    def _finish(self, task: Task, assignment: Assignment) -> None:
        task.machine.fire(TaskEvent.PROMOTE)
        task.stopped_at = time.monotonic()
        self._parts.restorer.finish(task, assignment.fence)

    def _close(self, task: Task) -> None:
        """Forget a task that does not run. Whoever holds its stores closes them."""
        del self.by_id[task.id]
        held_here = task.state is TaskState.SUSPENDED
        task.machine.fire(TaskEvent.CLOSE)
        if held_here:
            if task.left_on_disk is not None:
                self._closing[task.id] = task.left_on_disk
            _unbind(task)
            self._parts.restorer.close(task)
        else:
            self._parts.restorer.drop(task)

    # -- the restore thread's events --------------------------------------------------------------------------------

    def on_restore_event(self, event: RestoreEvent) -> bool:
        """Act on it; whether a task, or what is left on disk, has changed by it. Raises what a task has failed with."""
        match event:
            case Finished():
                return self._on_finished(event)
            case CaughtUp(task):
                return self._on_copy(task, TaskEvent.CAUGHT_UP)
            case FellBehind(task):
                return self._on_copy(task, TaskEvent.FELL_BEHIND)
            case TaskFailed(task, error):
                if self.by_id.get(task.id) is task:
                    raise error
                return False
            case Closed(task_id, error):
                if error is not None:
                    raise error
                self._closing.pop(task_id, None)
                self._dormant = self._parts.dormant()
                return True

    def _on_finished(self, event: Finished) -> bool:
        task = event.task
        if task.state is TaskState.CLOSED:  # it was taken away while this event was on its way
            self._parts.restorer.close(task)
        elif task.state is TaskState.FINISHING:
            self._parts.bind(task)
            task.machine.fire(TaskEvent.STARTED)
            self.processor.start(task, event.offsets)
            self._note_start(task)
            return True
        # Otherwise it was demoted meanwhile, and a command to follow it is on its way to the restore thread.
        return False

    def _on_copy(self, task: Task, event: TaskEvent) -> bool:
        if self.by_id.get(task.id) is not task or not task.machine.allows(event):
            return False
        task.machine.fire(event)
        return True

    def _note_start(self, task: Task) -> None:
        if task.stopped_at is not None:
            stood_still_s = time.monotonic() - task.stopped_at
            log.debug("task runs", task=str(task.id), stood_still_ms=round(stood_still_s * 1000))
            self._parts.metrics.task_unavailable_seconds.observe(stood_still_s)
            task.stopped_at = None
        self._on_started(task)

    # -- endings ----------------------------------------------------------------------------------------------------

    def drop_all(self, *, lost: bool) -> None:
        """Undo what is not committed and forget all tasks; with a new producer if this one is `lost`."""
        try:
            self.processor.abort()
        except ProducerLost:
            lost = True
        self.processor.stop(self.processor.running)
        if lost:
            self.processor.close()
            self.processor = self._parts.new_processor()
        for task in list(self.by_id.values()):
            del self.by_id[task.id]
            held_here = task.state in HELD_STATES
            task.machine.fire(TaskEvent.CLOSE)
            (self._parts.close_task if held_here else self._parts.restorer.drop)(task)
        self._dormant = self._parts.dormant()

    def close(self) -> None:
        """Have those closed that are held here; the restore thread closes all others when it stops."""
        for task in list(self.by_id.values()):
            if task.state in HELD_STATES:
                task.machine.fire(TaskEvent.CLOSE)
                _unbind(task)
                self._parts.restorer.close(task)
        self.by_id.clear()


def _unbind(task: Task) -> None:
    if task.program is not None:
        task.program.close()
        task.program = None
