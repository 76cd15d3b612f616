"""What an assignment asks of a worker, as a pure function from its tasks and the assignment to a list of steps.

The worker's loop and the simulator run the same plan: the loop acts on it, the simulator pretends to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Protocol

from assignor.model import Assignment, CopyState, LagRecords, Subscription, TaskId, WorkerId
from kstreams_worker.tasks.states import Role, TaskState


class Step(Enum):
    """What to do with one task. The order of the members is the order in which steps are taken: give up before taking on."""

    CLOSE = auto()
    """Commit if it runs, close, forget."""
    DEMOTE = auto()
    """It was active and stays as a standby or learner: hand the open stores to the restore thread."""
    RESUME = auto()
    """It was suspended and stays active."""
    REFRESH = auto()
    """The same, but another may have processed it meanwhile: complete its state anew before it goes on."""
    RELABEL = auto()
    """A copy that goes on being a copy, in another role."""
    PROMOTE = auto()
    """A copy becomes active."""
    OPEN = auto()
    """A task that this worker does not have yet."""


class TaskFacts(Protocol):
    """A task as the plan sees it."""

    @property
    def role(self) -> Role: ...
    @property
    def state(self) -> TaskState: ...
    @property
    def stateful(self) -> bool: ...
    @property
    def lag(self) -> LagRecords: ...


@dataclass(frozen=True, slots=True)
class TaskView:
    """The facts of a task at one moment."""

    role: Role
    state: TaskState
    stateful: bool
    lag: LagRecords = LagRecords(0)


@dataclass(frozen=True, slots=True)
class TaskStep:
    """One step of a plan. `role` is the role after it; for a task to close, the one it had."""

    step: Step
    task: TaskId
    role: Role


def plan(tasks: Mapping[TaskId, TaskFacts], assignment: Assignment, *, missed_round: bool = False) -> list[TaskStep]:
    """Steps that take a worker from its tasks to its assignment, in the order in which to take them.

    `missed_round`: this worker took part in a round whose assignment it never got. That may have given what it had suspended
    to another, who processed it, and is gone: so its open state may be old.
    """
    wanted: dict[TaskId, Role] = dict.fromkeys(assignment.standbys, Role.STANDBY)
    wanted.update(dict.fromkeys(assignment.learners, Role.LEARNER))
    wanted.update(dict.fromkeys(assignment.active, Role.ACTIVE))
    steps = [TaskStep(Step.CLOSE, task, view.role) for task, view in tasks.items() if task not in wanted]
    for task, role in wanted.items():
        step = _step(tasks.get(task), role, missed_round=missed_round)
        if step is not None:
            steps.append(TaskStep(step, task, role))
    return sorted(steps, key=lambda step: (step.step.value, step.task))


def _step(view: TaskFacts | None, role: Role, *, missed_round: bool) -> Step | None:
    if view is None:
        return Step.OPEN
    if view.role is Role.ACTIVE:
        if role is not Role.ACTIVE:
            return Step.DEMOTE
        if view.state is not TaskState.SUSPENDED:
            return None
        return Step.REFRESH if missed_round else Step.RESUME
    if role is Role.ACTIVE:
        return Step.PROMOTE
    return Step.RELABEL if role is not view.role else None


def has_missed_round(acted_on_generation: int, generation: int) -> bool:
    """Whether a round lies between the last assignment that was acted on and this one; before the first there is nothing
    to miss."""
    return 0 <= acted_on_generation < generation - 1


def to_suspend(tasks: Mapping[TaskId, TaskFacts], being_learned: frozenset[TaskId]) -> list[TaskId]:
    """The tasks to commit and suspend before a round: those that are being learned, and no other."""
    return sorted(task for task in being_learned if task in tasks and tasks[task].state is TaskState.RUNNING)


@dataclass(frozen=True, slots=True)
class Identity:
    """The part of a worker's subscription that does not change while it runs."""

    worker: WorkerId
    topology: bytes
    capacity: int
    name: str
    endpoint: str | None = None
    upgrade_mode: str | None = None


def subscription(
    identity: Identity,
    tasks: Mapping[TaskId, TaskFacts],
    dormant: Mapping[TaskId, CopyState],
    *,
    leaving: bool = False,
    leave_timeout_ms: int | None = None,
) -> Subscription:
    """What a worker says of itself when it joins.

    A task that is FINISHING counts as active: it was given to this worker, which goes on taking it over through the round.
    """
    active: set[TaskId] = set()
    suspended: set[TaskId] = set()
    learners: dict[TaskId, CopyState] = {}
    standbys: dict[TaskId, CopyState] = {}
    for task, view in tasks.items():
        if view.role is Role.ACTIVE:
            (suspended if view.state is TaskState.SUSPENDED else active).add(task)
        else:
            copies = learners if view.role is Role.LEARNER else standbys
            copies[task] = CopyState(view.lag, view.state is TaskState.READY)
    return Subscription(
        worker=identity.worker,
        topology=identity.topology,
        capacity=identity.capacity,
        name=identity.name,
        endpoint=identity.endpoint,
        upgrade_mode=identity.upgrade_mode,
        active=frozenset(active),
        suspended=frozenset(suspended),
        learners=learners,
        standbys=standbys,
        dormant={task: copy for task, copy in dormant.items() if task not in tasks},
        leaving=leaving,
        leave_timeout_ms=leave_timeout_ms,
    )


def with_unapplied(said: Subscription, unapplied: Assignment | None) -> Subscription:
    """A subscription that also claims the tasks of an assignment that the loop has not acted on yet.

    The loop may be busy with a slow record while the next round begins. What the last round gave this worker is its own
    all the same, and must not be given to another: also not a task that is suspended still, and that the loop will resume
    when it acts on that assignment.
    """
    if unapplied is None:
        return said
    copies = {**said.standbys, **said.learners}
    unknown = CopyState(LagRecords(0))
    return replace(
        said,
        active=said.active | unapplied.active,
        suspended=said.suspended - unapplied.active,
        learners={task: copies.get(task, unknown) for task in unapplied.learners},
        standbys={task: copies.get(task, unknown) for task in unapplied.standbys},
    )
