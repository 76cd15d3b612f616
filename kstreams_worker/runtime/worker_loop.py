"""The processing loop of a worker: one thread that processes, commits, and acts on what the group and the restore thread say.

One turn: take the events that have come, process a batch, commit when it is time, ask for a round when a learner is ready.
Rounds never stop it: only the tasks that are being learned are suspended, between PrepareRound and the assignment.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog

from assignor.model import Assignment, AssignmentError, Subscription, TaskId
from kstreams_worker.errors import GroupError, TopicError
from kstreams_worker.group.events import Assigned, GroupEvent, GroupFailed, MembershipLost, PrepareRound
from kstreams_worker.io.failures import ProducerLost
from kstreams_worker.observe.metrics import WorkerMetrics
from kstreams_worker.restore.events import RestoreEvent
from kstreams_worker.runtime.commit_timing import CommitTiming
from kstreams_worker.runtime.worker_tasks import TaskParts, WorkerTasks
from kstreams_worker.tasks.leaving import LeaveCause, LeaveEvent, Leaving, OrderTakenBack, ToldToLeave, Verdict
from kstreams_worker.tasks.plan import Identity, Step, TaskStep, has_missed_round, plan, subscription, to_suspend
from kstreams_worker.tasks.rejoining import Rejoining
from kstreams_worker.tasks.task import Task
from kstreams_worker.topology.records import Partition

log = structlog.get_logger(__name__)

IDLE_WAIT_S = 0.01
"""How long a turn waits for a record; also how long an event waits for a quiet loop."""
CLOSE_TIMEOUT_S = 10.0
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


@dataclass(frozen=True)
class LoopParts:
    """What a loop is made of."""

    identity: Identity
    group: Group
    tasks: TaskParts
    metrics: WorkerMetrics
    commit_interval_s: float
    partial_rebalance: bool


class WorkerLoop:
    """Made and run by one thread; others put events into its queue, and use `stop` and the read-only properties."""

    def __init__(self, parts: LoopParts, events: queue.SimpleQueue[GroupEvent | RestoreEvent | LeaveEvent]) -> None:
        self._parts = parts
        self._group = parts.group
        self._events = events
        self._commits = CommitTiming(parts.commit_interval_s)
        self._tasks = WorkerTasks(parts.tasks, on_started=self._commits.started)
        self._rejoining = Rejoining(time.monotonic, partial=parts.partial_rebalance)
        self._leaving = Leaving(time.monotonic)
        self._being_learned: frozenset[TaskId] = frozenset()
        self._announced_ready = ""
        self._complaint = ""
        self._stop_requested = False
        self.left: LeaveCause | None = None
        """Why this worker has left for good, once it has."""
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
        return self._tasks.processor.is_processing

    def snapshot(self) -> list[Task]:
        """The tasks of this worker. They go on living: read plain attributes only."""
        return list(self._tasks.by_id.values())

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
            self._tasks.processor.turn(IDLE_WAIT_S)
            self._commit_if_due()
        except ProducerLost as lost:
            self._start_over(str(lost))
        self._ask_for_rounds()
        self._leave_if_done()
        self._measure_lag()
        self.turns += 1

    def _commit_if_due(self) -> None:
        processor = self._tasks.processor
        is_full = processor.buffer_is_full
        processor.settle(wait=is_full)
        now = time.monotonic()
        if (self._commits.is_due(now) or is_full) and processor.begin_commit():
            self._commits.begun(now)

    def _ask_for_rounds(self) -> None:
        views = self._tasks.views()
        learners = self._rejoining.to_declare(views)
        if learners:
            self._publish()
            ready = _names(learners)
            announce = log.debug if ready == self._announced_ready else log.info
            announce("learner ready; asking for the hand-over", tasks=ready)
            self._announced_ready = ready
            self._group.request_rejoin(f"learners ready: {ready}")
        if self._rejoining.is_owed(views):
            self._group.request_rejoin("what is being learned can be suspended now")

    def _measure_lag(self) -> None:
        # By the loop, since another thread that asks the consumer waits until its current call is over.
        now = time.monotonic()
        if now >= self._next_lag:
            self._next_lag = now + LAG_INTERVAL_S
            self.lag_records = self._tasks.processor.lag_records()

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
                log.warning("membership lost; dropping all tasks", reason=reason, tasks=len(self._tasks.by_id))
                self._drop_all()
                self._group.dropped()
            case GroupFailed(error):
                raise error
            case ToldToLeave():
                self._on_told_to_leave(event)
            case OrderTakenBack():
                self._on_order_taken_back()
            case _:
                if self._tasks.on_restore_event(event):
                    self._publish()

    # -- rounds ---------------------------------------------------------------------------------------------------

    def _on_prepare(self, event: PrepareRound) -> None:
        if time.monotonic() < event.deadline:
            moving = to_suspend(self._tasks.views(), self._being_learned & event.tasks)
            if moving:
                try:
                    self._tasks.suspend([self._tasks.by_id[task] for task in moving])
                    self._publish()
                except ProducerLost as lost:  # the group plane waits for an answer in any case
                    self._start_over(str(lost))
        self._group.prepared(event)

    def _on_assigned(self, event: Assigned) -> None:
        assignment = event.assignment
        self._heed_error(assignment)
        missed_round = has_missed_round(self.generation_id, event.generation.generation_id)
        self.generation_id = event.generation.generation_id
        self.member_id = event.generation.member_id
        self.rounds += 1
        steps = plan(self._tasks.views(), assignment, missed_round=missed_round)
        self._tasks.take(steps, assignment)
        self._being_learned = assignment.being_learned
        self._announced_ready = ""
        self._publish(applied=assignment)
        self._tell_of_round(event, steps)
        if self._rejoining.acted_on(assignment, self._tasks.views(), steps, event.said_ready):
            self._group.request_rejoin("gave up tasks that move on")
        if event.said_leaving is not bool(self._leaving):
            # It was told while a round was on: what was asked then is void.
            self._group.request_rejoin("leaves" if self._leaving else "stays")
        verdict = self._leaving.judge(assignment, said_leaving=event.said_leaving)
        if verdict is Verdict.NOBODY and self._leaving.cause is LeaveCause.ORDER:
            log.warning("told to leave, but no other instance may take the tasks: waiting for one")

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

    def _tell_of_round(self, event: Assigned, steps: list[TaskStep]) -> None:
        self._parts.metrics.rebalance_duration_seconds.observe(event.round_s)
        self._parts.metrics.rebalances_total.labels("assigned").inc()
        assignment = event.assignment
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
            self._group.request_rejoin("leaves")

    def _on_order_taken_back(self) -> None:
        if self._leaving.take_back():
            log.info("the order to leave was taken back", leaves=bool(self._leaving))
            self._publish()
            self._group.request_rejoin("stays")

    def _leave_if_done(self) -> None:
        reason = None if self._stop_requested else self._leaving.reason_to_go()
        if reason is not None:
            log.info("leaving the group for good", reason=reason, active=_names(self._tasks.by_id))
            self.left = LeaveCause.ORDER if self._leaving.ordered else LeaveCause.SIGNAL
            self.stop()

    # -- endings ----------------------------------------------------------------------------------------------------

    def _start_over(self, reason: str) -> None:
        """Nobody knows what became of the last commit: forget everything and go on from what the brokers say."""
        log.warning("starting over", reason=reason)
        self._drop_all(lost=True)
        self._group.request_rejoin("starting over")

    def _drop_all(self, *, lost: bool = False) -> None:
        self._tasks.drop_all(lost=lost)
        self._being_learned = frozenset()
        self._rejoining.forget()
        self._publish()

    def _final_commit(self) -> None:
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        try:
            while not self._tasks.processor.commit() and time.monotonic() < deadline:
                self._take_events()
                time.sleep(IDLE_WAIT_S)
        except ProducerLost:
            log.warning("nobody knows what became of the last commit; whoever has these tasks next asks the brokers")
        processor = self._tasks.processor
        processor.stop(processor.running)
        processor.close()

    def close_tasks(self) -> None:
        """After `run`: have the tasks closed that this thread holds."""
        self._tasks.close()

    def _publish(self, applied: Assignment | None = None) -> None:
        views = self._tasks.views()
        said = subscription(
            self._parts.identity,
            views,
            self._tasks.left_on_disk,
            leaving=bool(self._leaving),
            leave_timeout_ms=self._leaving.remaining_ms(),
        )
        running = frozenset(task for task in self._being_learned if task in views)
        self._group.publish(said, running, applied=applied)


_TOLD = (Step.CLOSE, Step.DEMOTE, Step.RESUME, Step.REFRESH, Step.PROMOTE, Step.OPEN)


def _names(tasks: Iterable[TaskId]) -> str:
    """Task names for a log line, shortened past a screenful."""
    names = [str(task) for task in sorted(tasks)]
    return (
        " ".join(names) if len(names) <= _NAMES_MAX else " ".join(names[:_NAMES_MAX]) + f" +{len(names) - _NAMES_MAX}"
    )


_NAMES_MAX = 20
