"""The processing loop of a worker: one thread that processes, commits, and acts on what the group and the restore thread say.

One turn: take the events that have come, process a batch, commit when it is time, ask for a round when a learner is ready.
Rounds never stop it: only the tasks that are being learned are suspended, between PrepareRound and the assignment.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog

from assignor.model import Assignment, AssignmentError, CopyState, Subscription, TaskId, WorkerId
from kstreams_worker.errors import GroupError, TopicError
from kstreams_worker.group.events import Assigned, GroupEvent, GroupFailed, MembershipLost, PrepareRound
from kstreams_worker.io.failures import ProducerFenced
from kstreams_worker.observe.metrics import WorkerMetrics
from kstreams_worker.restore.events import CaughtUp, Closed, FellBehind, Finished, RestoreEvent, TaskFailed
from kstreams_worker.runtime.processor import Processor
from kstreams_worker.tasks.leaving import LeaveCause, LeaveEvent, Leaving, OrderTakenBack, ToldToLeave, Verdict
from kstreams_worker.tasks.plan import (
    Identity,
    Step,
    TaskStep,
    TaskView,
    has_missed_round,
    plan,
    rejoin_is_vain,
    subscription,
    to_suspend,
    wants_rejoin,
)
from kstreams_worker.tasks.states import Role, TaskEvent, TaskState
from kstreams_worker.tasks.task import Task
from kstreams_worker.topology.records import Partition

log = structlog.get_logger(__name__)

IDLE_WAIT_S = 0.01
"""How long a turn waits for a record; also how long an event waits for a quiet loop."""
READY_RETRY_S = 5.0
"""A learner that said it is ready and was not given its task says so again after this long."""
EARLY_COMMIT_WAIT_S = 0.03
"""How long the first records of a task that stood still wait for those of others taken over with it."""
CLOSE_TIMEOUT_S = 10.0
LEAVE_PAUSE_S = 1.0
"""How long a worker stays after its last task was handed over. Its leaving begins a round, which would hold up the first commit
of whoever took over."""
LAG_INTERVAL_S = 1.0
STALL_S = 1.0
"""A turn longer than this is counted as a stall."""


class Group(Protocol):
    """What the loop needs of the group plane."""

    def publish(
        self, said: Subscription, being_learned: frozenset[TaskId], *, applied: Assignment | None = None
    ) -> None: ...
    def prepared(self, event: PrepareRound) -> None: ...
    def dropped(self) -> None: ...
    def request_rejoin(self, reason: str) -> None: ...


class Restorer(Protocol):
    """What the loop needs of the restore thread."""

    def follow(self, task: Task) -> None: ...
    def finish(self, task: Task, fence: Iterable[WorkerId] = ()) -> None: ...
    def drop(self, task: Task) -> None: ...
    def close(self, task: Task) -> None: ...


@dataclass(frozen=True)
class LoopParts:
    """What a loop is made of. `new_processor` is called again after the producer was fenced."""

    identity: Identity
    group: Group
    restorer: Restorer
    new_processor: Callable[[], Processor]
    new_task: Callable[[TaskId, Role], Task]
    bind: Callable[[Task], None]
    """Give a task whose state is complete its program."""
    close_task: Callable[[Task], None]
    dormant: Callable[[], Mapping[TaskId, CopyState]]
    metrics: WorkerMetrics
    commit_interval_s: float
    partial_rebalance: bool


class WorkerLoop:
    """Made and run by one thread; others use `tell`, `stop` and the read-only properties."""

    def __init__(self, parts: LoopParts, events: queue.SimpleQueue[GroupEvent | RestoreEvent | LeaveEvent]) -> None:
        self._parts = parts
        self._events = events
        self._processor = parts.new_processor()
        self.tasks: dict[TaskId, Task] = {}
        self._dormant = parts.dormant()
        self._closing: dict[TaskId, CopyState] = {}
        """State of tasks that were given up and are being closed: as good as dormant, and told at once. A leader that does not
        know of it gives the task to somebody who has less of it."""
        self._being_learned: frozenset[TaskId] = frozenset()
        self._declared_ready: frozenset[TaskId] = frozenset()
        self._declared_at = 0.0
        self._announced_ready = ""
        self._rejoin_owed: Assignment | None = None
        self._rejoin_late_at = 0.0
        self._next_commit = 0.0
        self._fresh: list[Task] = []
        """Tasks that were taken over, or resumed, and for whose first records there has been no commit yet."""
        self._early_commit_at: float | None = None
        self._stop_requested = False
        self._leaving = Leaving(time.monotonic)
        self._leave_at: float | None = None
        self.left: LeaveCause | None = None
        """Why this worker has left for good, once it has."""
        self._complaint = ""
        self.generation_id = -1
        self.member_id = ""
        self.turns = 0
        self.rounds = 0
        self.lag_records: Mapping[Partition, int] = {}
        """Lag of each input partition that is processed; replaced about once a second."""
        self._next_lag = 0.0

    # -- for other threads ----------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the loop after its current turn; `run` then closes cleanly. Safe in a signal handler."""
        self._stop_requested = True

    @property
    def is_processing(self) -> bool:
        """Whether any task runs."""
        return self._processor.is_processing

    def snapshot(self) -> list[Task]:
        """The tasks of this worker. They go on living: read plain attributes only."""
        return list(self.tasks.values())

    # -- the loop -------------------------------------------------------------------------------------------------

    def publish_first(self) -> None:
        """Say who this worker is, before the group plane joins."""
        self._take_events()
        self._publish()

    def run(self) -> None:
        """Process until `stop`, then commit. Raises what ends the worker: KStreamsError of all kinds."""
        while not self._stop_requested:
            started = time.monotonic()
            self.turn()
            took_s = time.monotonic() - started
            if took_s > STALL_S:
                self._parts.metrics.loop_stall_seconds.observe(took_s)
        self._final_commit()

    def turn(self) -> None:
        """One turn. Public for those who drive the loop themselves."""
        try:
            self._take_events()
            self._processor.turn(IDLE_WAIT_S)
            self._commit_if_due()
        except ProducerFenced as fenced:
            self._start_over(str(fenced))
        self._rejoin_if_ready()
        self._leave_if_due()
        self._rejoin_if_owed()
        self._measure_lag()
        self.turns += 1

    def _measure_lag(self) -> None:
        # By the loop, since another thread that asks the consumer waits until its current call is over.
        now = time.monotonic()
        if now >= self._next_lag:
            self._next_lag = now + LAG_INTERVAL_S
            self.lag_records = self._processor.lag_records()

    def _take_events(self) -> None:
        while True:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                return
            self._on_event(event)

    def _on_event(self, event: GroupEvent | RestoreEvent | LeaveEvent) -> None:
        match event:
            case Assigned():
                self._on_assigned(event)
            case PrepareRound():
                self._on_prepare(event)
            case MembershipLost(reason):
                log.warning("membership lost; dropping all tasks", reason=reason, tasks=len(self.tasks))
                self._drop_all()
                self._parts.group.dropped()
            case GroupFailed(error):
                raise error
            case ToldToLeave():
                self._on_told_to_leave(event)
            case OrderTakenBack():
                self._on_order_taken_back()
            case _:
                self._on_restore_event(event)

    def _commit_if_due(self) -> None:
        is_full = self._processor.buffer_is_full
        if self._fresh:
            self._commit_early()
        self._processor.settle(wait=is_full)
        now = time.monotonic()
        if (now >= self._next_commit or is_full) and self._processor.begin_commit():
            self._next_commit = now + self._parts.commit_interval_s

    def _commit_early(self) -> None:
        """The first records of tasks that stood still are committed at once: their outputs have waited long enough.

        Tasks that were taken over together get one commit together: the second would have to wait for the first.
        """
        waiting = [task for task in self._fresh if task.state is TaskState.RUNNING and not task.positions]
        if len(waiting) == len(self._fresh):
            return
        now = time.monotonic()
        self._early_commit_at = self._early_commit_at or now + EARLY_COMMIT_WAIT_S
        if not waiting or now >= self._early_commit_at:
            self._fresh, self._early_commit_at = waiting, None
            self._next_commit = 0.0

    def _rejoin_if_ready(self) -> None:
        if self._declared_ready and time.monotonic() - self._declared_at > READY_RETRY_S:
            self._declared_ready = frozenset()
        views = self._views()
        if wants_rejoin(views, self._declared_ready, partial=self._parts.partial_rebalance):
            self._declared_ready = frozenset(
                task for task, view in views.items() if view.role is Role.LEARNER and view.state is TaskState.READY
            )
            self._declared_at = time.monotonic()
            self._publish()
            ready = ", ".join(map(str, sorted(self._declared_ready)))
            (log.debug if ready == self._announced_ready else log.info)(
                "learner ready; asking for the hand-over", tasks=ready
            )
            self._announced_ready = ready
            self._parts.group.request_rejoin(f"learners ready: {ready}")

    def _rejoin_if_owed(self) -> None:
        """The leader asked for one more round, which would have been in vain until now."""
        owed = self._rejoin_owed
        if owed is not None and (
            time.monotonic() > self._rejoin_late_at or not rejoin_is_vain(self._views(), owed, ())
        ):
            self._rejoin_owed = None
            self._parts.group.request_rejoin("what is being learned can be suspended now")

    # -- rounds ---------------------------------------------------------------------------------------------------

    def _on_prepare(self, event: PrepareRound) -> None:
        if time.monotonic() < event.deadline:
            moving = self._being_learned & event.tasks
            tasks = [self.tasks[task] for task in to_suspend(self._views(), moving)]
            if tasks:
                self._suspend(tasks)
                self._publish()
        self._parts.group.prepared(event)

    def _suspend(self, tasks: list[Task]) -> None:
        if not self._processor.commit():
            # What these tasks sent is in the same transaction as everybody's: undone for all, or for none.
            self._processor.abort()
        self._processor.stop(tasks)
        for task in tasks:
            task.machine.fire(TaskEvent.SUSPEND)
            task.stopped_at = time.monotonic()

    def _on_assigned(self, event: Assigned) -> None:
        assignment = event.assignment
        self._heed_error(assignment)
        missed_round = has_missed_round(self.generation_id, event.generation.generation_id)
        self.generation_id = event.generation.generation_id
        self.member_id = event.generation.member_id
        self.rounds += 1
        steps = plan(self._views(), assignment, missed_round=missed_round)
        self._give_up([step for step in steps if step.step in (Step.CLOSE, Step.DEMOTE)])
        for step in steps:
            self._take_step(step, assignment)
        self._being_learned = assignment.being_learned
        # A learner that became ready after this worker had joined the round asked in vain: it asks again.
        self._declared_ready &= event.said_ready & frozenset(assignment.learners)
        self._announced_ready = ""
        self._publish(applied=assignment)
        self._parts.metrics.rebalance_duration_seconds.observe(event.round_s)
        self._parts.metrics.rebalances_total.labels("assigned").inc()
        log.info(
            "round",
            generation=self.generation_id,
            leader=event.is_leader,
            took_ms=round(event.round_s * 1000),
            active=_names(assignment.active),
            learning=_names(assignment.learners),
            being_learned=_names(assignment.being_learned),
            standby=_names(assignment.standbys),
            **{step.name.lower(): _names(taken.task for taken in steps if taken.step is step) for step in _TOLD},
        )
        self._rejoin_owed = assignment if rejoin_is_vain(self._views(), assignment, steps) else None
        self._rejoin_late_at = time.monotonic() + READY_RETRY_S
        if assignment.rejoin and self._rejoin_owed is None:
            self._parts.group.request_rejoin("gave up tasks that move on")
        if event.said_leaving is not bool(self._leaving):
            # It was told while a round was on: what was asked then is void.
            self._parts.group.request_rejoin("leaves" if self._leaving else "stays")
        self._leave_if_done(event)

    def _heed_error(self, assignment: Assignment) -> None:
        if assignment.error is AssignmentError.NONE:
            self._complaint = ""
        elif assignment.error is AssignmentError.MISSING_INPUT_TOPICS:
            if assignment.error_text != self._complaint:
                self._complaint = assignment.error_text
                log.warning(assignment.error_text)
        elif assignment.error is AssignmentError.INTERNAL_TOPIC_MISMATCH:
            raise TopicError(assignment.error_text)
        else:
            raise GroupError(assignment.error_text)

    def _give_up(self, steps: list[TaskStep]) -> None:
        """Stop the tasks that run and are to be closed or demoted, after one commit for all of them."""
        running = [self.tasks[step.task] for step in steps if self.tasks[step.task].state is TaskState.RUNNING]
        if running:
            self._suspend(running)

    def _take_step(self, step: TaskStep, assignment: Assignment) -> None:
        if step.step is Step.OPEN:
            self._open(step.task, step.role, assignment)
            return
        task = self.tasks[step.task]
        match step.step:
            case Step.CLOSE:
                self._close(task)
            case Step.DEMOTE:
                self._unbind(task)
                task.role = step.role
                task.machine.fire(TaskEvent.DEMOTE)
                self._parts.restorer.follow(task)
            case Step.RESUME:
                task.machine.fire(TaskEvent.RESUME)
                self._processor.resume(task)
                self._observe_gap(task)
            case Step.REFRESH:
                self._unbind(task)
                task.machine.fire(TaskEvent.DEMOTE)
                self._finish(task, assignment)
            case Step.RELABEL:
                task.role = step.role
            case Step.PROMOTE:
                task.role = Role.ACTIVE
                self._finish(task, assignment)

    def _open(self, task_id: TaskId, role: Role, assignment: Assignment) -> None:
        task = self._parts.new_task(task_id, role)
        self.tasks[task_id] = task
        if role is Role.ACTIVE:
            self._finish(task, assignment)
        else:
            task.machine.fire(TaskEvent.FOLLOW)
            self._parts.restorer.follow(task)

    def _finish(self, task: Task, assignment: Assignment) -> None:
        task.machine.fire(TaskEvent.PROMOTE)
        task.stopped_at = time.monotonic()
        self._parts.restorer.finish(task, assignment.fence)

    @staticmethod
    def _unbind(task: Task) -> None:
        if task.program is not None:
            task.program.close()
            task.program = None

    def _close(self, task: Task) -> None:
        """Forget a task that does not run. Whoever holds its stores closes them."""
        del self.tasks[task.id]
        held_here = task.state is TaskState.SUSPENDED
        task.machine.fire(TaskEvent.CLOSE)
        if held_here:
            if task.left_on_disk is not None:
                self._closing[task.id] = task.left_on_disk
            self._unbind(task)
            self._parts.restorer.close(task)
        else:
            self._parts.restorer.drop(task)

    # -- leaving ------------------------------------------------------------------------------------------------------

    def _on_told_to_leave(self, event: ToldToLeave) -> None:
        self._leaving.tell(event)
        log.info(
            "leaving: processing goes on until others have learned the tasks",
            cause=event.cause.value,
            timeout_ms=self._leaving.remaining_ms(),
        )
        self._publish()
        if self.rounds:
            self._parts.group.request_rejoin("leaves")

    def _on_order_taken_back(self) -> None:
        if self._leaving.take_back():
            log.info("the order to leave was taken back", leaves=bool(self._leaving))
            self._leave_at = None
            self._publish()
            self._parts.group.request_rejoin("stays")

    def _leave_if_done(self, event: Assigned) -> None:
        leave_at, self._leave_at = self._leave_at, None
        match self._leaving.judge(event.assignment, said_leaving=event.said_leaving):
            case Verdict.DONE:
                self._leave_at = leave_at or time.monotonic() + LEAVE_PAUSE_S
            case Verdict.NOBODY if self._leaving.cause is LeaveCause.SIGNAL:
                self._leave("no other instance may take the tasks")
            case Verdict.NOBODY:
                log.warning("told to leave, but no other instance may take the tasks: waiting for one")

    def _leave_if_due(self) -> None:
        if self._stop_requested:
            return
        if self._leave_at is not None and time.monotonic() >= self._leave_at:
            self._leave("all tasks are handed over")
        elif self._leaving and self._leaving.remaining_ms() == 0:
            self._leave("others had the time they were given to learn the tasks")

    def _leave(self, reason: str) -> None:
        if self.left is not None:  # by an earlier round of the same turn
            return
        log.info("leaving the group for good", reason=reason, active=_names(self.tasks.keys()))
        self.left = LeaveCause.ORDER if self._leaving.ordered else LeaveCause.SIGNAL
        self.stop()

    # -- the restore thread's events --------------------------------------------------------------------------------

    def _on_restore_event(self, event: RestoreEvent) -> None:
        match event:
            case Finished():
                self._on_finished(event)
            case CaughtUp(task):
                self._on_copy(task, TaskEvent.CAUGHT_UP)
            case FellBehind(task):
                self._on_copy(task, TaskEvent.FELL_BEHIND)
            case TaskFailed(task, error):
                if self.tasks.get(task.id) is task:
                    raise error
            case Closed(task_id, error):
                if error is not None:
                    raise error
                self._closing.pop(task_id, None)
                self._dormant = self._parts.dormant()
                self._publish()

    def _on_finished(self, event: Finished) -> None:
        task = event.task
        if task.state is TaskState.CLOSED:  # it was taken away while this event was on its way
            self._parts.restorer.close(task)
        elif task.state is TaskState.FINISHING:
            self._parts.bind(task)
            task.machine.fire(TaskEvent.STARTED)
            self._processor.start(task, event.offsets)
            self._observe_gap(task)
            self._publish()
        # Otherwise it was demoted meanwhile, and a command to follow it is on its way to the restore thread.

    def _on_copy(self, task: Task, event: TaskEvent) -> None:
        if self.tasks.get(task.id) is task and task.machine.allows(event):
            task.machine.fire(event)
            self._publish()

    def _observe_gap(self, task: Task) -> None:
        self._fresh.append(task)
        if task.stopped_at is not None:
            log.debug("task runs", task=str(task.id), stood_still_ms=round((time.monotonic() - task.stopped_at) * 1000))
            self._parts.metrics.task_unavailable_seconds.observe(time.monotonic() - task.stopped_at)
            task.stopped_at = None

    # -- endings ----------------------------------------------------------------------------------------------------

    def _start_over(self, reason: str) -> None:
        """This worker was declared dead and replaced, or its producer failed: forget everything and join anew."""
        log.warning("starting over", reason=reason)
        self._drop_all(fenced=True)
        self._parts.group.request_rejoin("starting over")

    def _drop_all(self, *, fenced: bool = False) -> None:
        try:
            self._processor.abort()
        except ProducerFenced:
            fenced = True
        self._processor.stop(self._processor.running)
        if fenced:
            self._processor.close()
            self._processor = self._parts.new_processor()
        for task in list(self.tasks.values()):
            del self.tasks[task.id]
            held_here = task.state in (TaskState.RUNNING, TaskState.SUSPENDED)
            task.machine.fire(TaskEvent.CLOSE)
            (self._parts.close_task if held_here else self._parts.restorer.drop)(task)
        self._being_learned = frozenset()
        self._declared_ready = frozenset()
        self._rejoin_owed = None
        self._dormant = self._parts.dormant()
        self._publish()

    def _final_commit(self) -> None:
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        try:
            while not self._processor.commit() and time.monotonic() < deadline:
                self._take_events()
                time.sleep(IDLE_WAIT_S)
        except ProducerFenced:
            log.warning("the last commit was refused: another worker has these tasks")
        self._processor.stop(self._processor.running)
        self._processor.close()

    def close_tasks(self) -> None:
        """Have the tasks closed that this thread holds; the restore thread closes all others when it stops."""
        for task in list(self.tasks.values()):
            if task.state in (TaskState.RUNNING, TaskState.SUSPENDED):
                task.machine.fire(TaskEvent.CLOSE)
                self._unbind(task)
                self._parts.restorer.close(task)
        self.tasks.clear()

    def _publish(self, applied: Assignment | None = None) -> None:
        views = self._views()
        said = subscription(
            self._parts.identity,
            views,
            {**self._dormant, **self._closing},
            leaving=bool(self._leaving),
            leave_timeout_ms=self._leaving.remaining_ms(),
        )
        running = frozenset(task for task in self._being_learned if task in views)
        self._parts.group.publish(said, running, applied=applied)

    def _views(self) -> dict[TaskId, TaskView]:
        return {task: self.tasks[task].view() for task in self.tasks}


_TOLD = (Step.CLOSE, Step.DEMOTE, Step.RESUME, Step.REFRESH, Step.PROMOTE, Step.OPEN)


def _names(tasks: Iterable[TaskId]) -> str:
    """Task names for a log line, shortened past a screenful."""
    names = [str(task) for task in sorted(tasks)]
    return (
        " ".join(names) if len(names) <= _NAMES_MAX else " ".join(names[:_NAMES_MAX]) + f" +{len(names) - _NAMES_MAX}"
    )


_NAMES_MAX = 20
