"""A worker's processing loop, as `kstreams_worker.runtime.worker_loop` does it: the real task state machines and plans.

Processing itself is not simulated, only who believes to process what; and that a loop may be busy for a while, so that what
it is told waits.
"""

from __future__ import annotations

from random import Random
from typing import Protocol

from assignor.model import Assignment, CopyState, LagRecords, Subscription, TaskId
from kstreams_worker.simulator.changelogs import Changelogs
from kstreams_worker.simulator.clock import Action
from kstreams_worker.simulator.membership import LoopCalls, Membership
from kstreams_worker.simulator.process import Process
from kstreams_worker.simulator.restore import Copy, Disk, RestoreNews, Restorer
from kstreams_worker.simulator.timing import Timing
from kstreams_worker.tasks.leaving import PAUSE_S, LeaveCause, Leaving, ToldToLeave, Verdict
from kstreams_worker.tasks.plan import Identity, Step, TaskStep, has_missed_round, plan, subscription, to_suspend
from kstreams_worker.tasks.rejoining import Rejoining
from kstreams_worker.tasks.states import Role, TaskEvent, TaskState


class Watch(Protocol):
    """Who wants to know what a loop does. `moved` is called for every change of a task, after it."""

    def moved(self, loop: Loop, copy: Copy, event: TaskEvent) -> None: ...
    def done(self, loop: Loop, *, for_good: bool) -> None:
        """The worker has left the group and its process ends. `for_good`: it handed over, and is not started again."""
        ...


class Loop:
    """One worker's tasks."""

    def __init__(
        self,
        identity: Identity,
        partial_rebalance: bool,
        process: Process,
        member: Membership,
        *,
        disk: Disk,
        logs: Changelogs,
        timing: Timing,
        dice: Random,
        watch: Watch,
    ) -> None:
        self.identity, self.process, self.member = identity, process, member
        self._disk, self._logs, self._timing, self._dice, self._watch = disk, logs, timing, dice, watch
        self.restorer = Restorer(process, identity.worker, disk=disk, logs=logs, timing=timing, tell=self._on_restore)
        self.tasks: dict[TaskId, Copy] = {}
        self._leaving = Leaving(self._now_s)
        self._rejoining = Rejoining(self._now_s, partial=partial_rebalance, retry_s=timing.ready_retry_ms / 1000)
        self.assignment = Assignment()
        """The last that it has acted on, or acts on now."""
        self.closing = False
        """It commits, leaves and ends."""
        self._dormant = self._on_disk()
        self._being_learned: frozenset[TaskId] = frozenset()
        self._generation = -1
        self._free_at_ms = 0
        self._events: list[Action] = []
        member.loop = LoopCalls(
            self.subscription,
            lambda: self._being_learned,
            lambda deadline_ms, moving: self._tell(lambda: self._on_prepare(deadline_ms, moving)),
            lambda: self._tell(self._on_lost),
            lambda assignment, generation, said: self._tell(lambda: self._on_assigned(assignment, generation, said)),
        )

    # -- from outside ---------------------------------------------------------------------------------------------

    def busy(self, for_ms: float) -> None:
        """A slow record: what the loop is told from now on waits."""
        self._free_at_ms = max(self._free_at_ms, self.process.clock.now_ms) + round(for_ms)

    @property
    def leaving(self) -> bool:
        """Whether it has been told to leave."""
        return bool(self._leaving)

    def tell_to_leave(self, cause: LeaveCause, timeout_ms: int | None) -> None:
        """Leave once all tasks are learned elsewhere, or when the patience ends."""
        self._tell(lambda: self._on_told_to_leave(ToldToLeave(cause, timeout_ms)))

    def order_to_stay(self) -> None:
        """Take the order to leave back."""
        self._tell(self._on_order_taken_back)

    def order_to_close(self) -> None:
        """Commit, close and leave now."""
        self._tell(lambda: self._leave(for_good=False))

    def subscription(self) -> Subscription:
        """What the worker says in its next join."""
        self.restorer.measure()
        return subscription(
            self.identity,
            self.tasks,
            self._dormant,
            leaving=self.leaving,
            leave_timeout_ms=self._leaving.remaining_ms(),
        )

    def _now_s(self) -> float:
        return self.process.clock.now_ms / 1000

    def _later(self, delay_ms: float, action: Action) -> None:
        """Do it in the first turn after this time. A millisecond more, since the rules count in seconds."""
        self.process.after(delay_ms + 1, lambda: self._tell(action))

    def _tell(self, event: Action) -> None:
        """Let the loop see an event in its next turn, which takes all that has come by then."""
        self._events.append(event)
        if len(self._events) == 1:
            now_ms = self.process.clock.now_ms
            wait_ms = max(0, self._free_at_ms - now_ms) + self._dice.uniform(*self._timing.loop_ms)
            self.process.after(wait_ms, self._turn)

    def _turn(self) -> None:
        while self._events and not self.closing:
            self._events[0]()
            del self._events[0]

    # -- leaving --------------------------------------------------------------------------------------------------

    def _on_told_to_leave(self, told: ToldToLeave) -> None:
        self._leaving.tell(told)
        if told.timeout_ms is not None:
            self._later(told.timeout_ms, self._leave_if_done)
        self.member.request_rejoin()

    def _on_order_taken_back(self) -> None:
        if self._leaving.take_back():
            self.member.request_rejoin()

    def _leave_if_done(self) -> None:
        if not self.closing and self._leaving.reason_to_go() is not None:
            self._leave(for_good=True)

    def _leave(self, *, for_good: bool) -> None:
        self.closing = True
        self._suspend([copy for copy in self.tasks.values() if copy.state is TaskState.RUNNING])
        self.member.leave(for_good=for_good)
        self._watch.done(self, for_good=for_good)

    # -- rounds ---------------------------------------------------------------------------------------------------

    def _on_prepare(self, deadline_ms: int, moving: frozenset[TaskId]) -> None:
        if self.process.clock.now_ms < deadline_ms:
            self._suspend([self.tasks[task] for task in to_suspend(self.tasks, self._being_learned & moving)])
        self.member.prepared(deadline_ms)

    def _suspend(self, copies: list[Copy]) -> None:
        for copy in copies:
            copy.position = self._logs.end(copy.task)
            self._logs.stopped(copy.task, self.identity.worker)
            self._fire(copy, TaskEvent.SUSPEND)

    def _on_assigned(self, assignment: Assignment, generation: int, said: Subscription) -> None:
        self.assignment = assignment
        missed_round = has_missed_round(self._generation, generation)
        self._generation = generation
        steps = plan(self.tasks, assignment, missed_round=missed_round)
        given_up = [self.tasks[step.task] for step in steps if step.step in (Step.CLOSE, Step.DEMOTE)]
        self._suspend([copy for copy in given_up if copy.state is TaskState.RUNNING])
        for step in steps:
            self._take(step)
        if any(step.step is Step.CLOSE for step in steps):
            self._dormant = self._on_disk()
        self._being_learned = assignment.being_learned
        self.member.applied(assignment)
        if self._rejoining.acted_on(assignment, self.tasks, steps, said.ready):
            self.member.request_rejoin()
        self._later(self._timing.ready_retry_ms, self._ask_for_rounds)
        if said.leaving is not self.leaving:
            self.member.request_rejoin()
        if self._leaving.judge(assignment, said_leaving=said.leaving) is Verdict.DONE:
            self._later(PAUSE_S * 1000, self._leave_if_done)
        self._leave_if_done()
        self._ask_for_rounds()

    def _ask_for_rounds(self) -> None:
        if self.closing:
            return
        if self._rejoining.to_declare(self.tasks):
            self._later(self._timing.ready_retry_ms, self._ask_for_rounds)
            self.member.request_rejoin()
        if self._rejoining.is_owed(self.tasks):
            self.member.request_rejoin()

    def _take(self, step: TaskStep) -> None:
        if step.step is Step.OPEN:
            copy = Copy(step.task, step.role, self._logs.tasks[step.task].stateful)
            self.tasks[step.task] = copy
            if step.role is Role.ACTIVE:
                self._promote(copy)
            else:
                self._fire(copy, TaskEvent.FOLLOW)
                self.restorer.follow(copy)
            return
        copy = self.tasks[step.task]
        match step.step:
            case Step.CLOSE:
                self._close(copy)
            case Step.DEMOTE:
                copy.role = step.role
                self._fire(copy, TaskEvent.DEMOTE)
                self.restorer.follow(copy)
            case Step.RESUME:
                self._fire(copy, TaskEvent.RESUME)
                self._start(copy)
            case Step.REFRESH:
                self._fire(copy, TaskEvent.DEMOTE)
                self._promote(copy)
            case Step.RELABEL:
                copy.role = step.role
            case Step.PROMOTE:
                copy.role = Role.ACTIVE
                self._promote(copy)

    def _promote(self, copy: Copy) -> None:
        self._fire(copy, TaskEvent.PROMOTE)
        self.restorer.finish(copy)

    def _close(self, copy: Copy) -> None:
        del self.tasks[copy.task]
        held_here = copy.state is TaskState.SUSPENDED
        self._fire(copy, TaskEvent.CLOSE)
        (self.restorer.close if held_here else self.restorer.drop)(copy)

    def _on_lost(self) -> None:
        for copy in list(self.tasks.values()):
            if copy.state is TaskState.RUNNING:
                self._logs.stopped(copy.task, self.identity.worker)
            held_here = copy.state in (TaskState.RUNNING, TaskState.SUSPENDED)
            del self.tasks[copy.task]
            self._fire(copy, TaskEvent.CLOSE)
            (self.restorer.close if held_here else self.restorer.drop)(copy)
        self._being_learned = frozenset()
        self._rejoining.forget()
        self._dormant = self._on_disk()
        self.member.dropped()

    # -- the restore thread's events --------------------------------------------------------------------------------

    def _on_restore(self, copy: Copy, news: RestoreNews) -> None:
        self._tell(lambda: self._on_finished(copy) if news is RestoreNews.FINISHED else self._on_copy(copy, news))

    def _on_finished(self, copy: Copy) -> None:
        if copy.state is TaskState.CLOSED:
            self.restorer.close(copy)
        elif copy.state is TaskState.FINISHING:
            copy.version = self._logs.tasks[copy.task].version
            self._fire(copy, TaskEvent.STARTED)
            self._start(copy)
            self._ask_for_rounds()

    def _start(self, copy: Copy) -> None:
        """Process it from now on. What is processed is soon committed, if the broker takes it."""
        self._logs.started(copy.task, self.identity.worker)
        if self.member.may_commit():
            self._logs.tasks[copy.task].version += 1
            copy.version = self._logs.tasks[copy.task].version

    def _on_copy(self, copy: Copy, news: RestoreNews) -> None:
        event = TaskEvent.CAUGHT_UP if news is RestoreNews.CAUGHT_UP else TaskEvent.FELL_BEHIND
        if self.tasks.get(copy.task) is copy and copy.machine.allows(event):
            self._fire(copy, event)
            self._ask_for_rounds()

    # -- the state ------------------------------------------------------------------------------------------------

    def _fire(self, copy: Copy, event: TaskEvent) -> None:
        copy.machine.fire(event)
        self._watch.moved(self, copy, event)

    def _on_disk(self) -> dict[TaskId, CopyState]:
        return {
            task: CopyState(LagRecords(round(max(0.0, self._logs.end(task) - position))))
            for task, position in self._disk.closed.items()
        }
