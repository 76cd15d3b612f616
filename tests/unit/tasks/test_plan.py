"""What an assignment asks of a worker, and what a worker says of itself."""

from __future__ import annotations

from assignor.model import Assignment, CopyState, InstanceId, LagRecords, Subscription, TaskId, WorkerId
from kstreams_worker.tasks.plan import (
    Identity,
    Step,
    TaskStep,
    TaskView,
    has_missed_round,
    plan,
    subscription,
    to_suspend,
    with_unapplied,
)
from kstreams_worker.tasks.states import Role, TaskState

A, B, C, D = (TaskId(0, partition) for partition in range(4))
IDENTITY = Identity(WorkerId(InstanceId(bytes(16)), 0), bytes(8), 1, "host")


def view(role: Role, state: TaskState, lag: int = 0) -> TaskView:
    return TaskView(role, state, stateful=True, lag=LagRecords(lag))


def test_steps_give_up_before_they_take_on() -> None:
    """Closing comes first, so that what is freed is free before anything new is opened."""
    tasks = {
        A: view(Role.ACTIVE, TaskState.RUNNING),
        B: view(Role.ACTIVE, TaskState.SUSPENDED),
        C: view(Role.LEARNER, TaskState.READY),
    }
    steps = plan(tasks, Assignment(active=frozenset({C, D}), standbys=frozenset({B})))
    assert steps == [
        TaskStep(Step.CLOSE, A, Role.ACTIVE),
        TaskStep(Step.DEMOTE, B, Role.STANDBY),
        TaskStep(Step.PROMOTE, C, Role.ACTIVE),
        TaskStep(Step.OPEN, D, Role.ACTIVE),
    ]


def test_a_running_task_that_stays_is_left_alone() -> None:
    """A round that changes nothing for a task does nothing to it."""
    assert plan({A: view(Role.ACTIVE, TaskState.RUNNING)}, Assignment(active=frozenset({A}))) == []


def test_a_suspended_task_that_stays_resumes() -> None:
    """Its learner was not ready after all: it goes on from its open state."""
    steps = plan({A: view(Role.ACTIVE, TaskState.SUSPENDED)}, Assignment(active=frozenset({A})))
    assert steps == [TaskStep(Step.RESUME, A, Role.ACTIVE)]


def test_a_suspended_task_is_completed_anew_after_a_round_that_was_missed() -> None:
    """That round may have given it to another, who processed it and is gone: the open state may be old."""
    tasks = {A: view(Role.ACTIVE, TaskState.SUSPENDED), B: view(Role.ACTIVE, TaskState.RUNNING)}
    steps = plan(tasks, Assignment(active=frozenset({A, B})), missed_round=True)
    assert steps == [TaskStep(Step.REFRESH, A, Role.ACTIVE)]


def test_a_round_is_missed_when_generations_are_not_consecutive() -> None:
    """The same generation twice is the broker's answer to a join that changed nothing."""
    assert not has_missed_round(-1, 7)
    assert not has_missed_round(6, 6)
    assert not has_missed_round(6, 7)
    assert has_missed_round(6, 8)
    assert has_missed_round(0, 2)


def test_a_standby_that_becomes_a_learner_is_only_relabelled() -> None:
    """Nothing is restored twice."""
    steps = plan({A: view(Role.STANDBY, TaskState.READY)}, Assignment(learners=frozenset({A})))
    assert steps == [TaskStep(Step.RELABEL, A, Role.LEARNER)]


def test_only_running_tasks_that_are_being_learned_are_suspended() -> None:
    """Neither the others nor those still being restored."""
    tasks = {A: view(Role.ACTIVE, TaskState.RUNNING), B: view(Role.ACTIVE, TaskState.RUNNING)}
    tasks[C] = view(Role.ACTIVE, TaskState.FINISHING)
    assert to_suspend(tasks, frozenset({B, C, D})) == [B]


def test_a_subscription_tells_roles_and_readiness() -> None:
    """Active and suspended apart; copies with their lag; what lies on disk unless it is open."""
    tasks = {
        A: view(Role.ACTIVE, TaskState.FINISHING),
        B: view(Role.ACTIVE, TaskState.SUSPENDED),
        C: view(Role.LEARNER, TaskState.READY, 3),
        D: view(Role.STANDBY, TaskState.RESTORING, 70_000),
    }
    dormant = {A: CopyState(LagRecords(1)), TaskId(1, 0): CopyState(LagRecords(9))}
    said = subscription(IDENTITY, tasks, dormant)
    assert said.active == {A}
    assert said.suspended == {B}
    assert said.learners == {C: CopyState(LagRecords(3), ready=True)}
    assert said.standbys == {D: CopyState(LagRecords(70_000), ready=False)}
    assert said.dormant == {TaskId(1, 0): CopyState(LagRecords(9))}


def test_tasks_of_an_assignment_not_acted_on_yet_are_claimed() -> None:
    """The loop is busy: what the last round gave this worker is still its own in the next one."""
    said = Subscription(IDENTITY.worker, bytes(8), active=frozenset({A}), suspended=frozenset({B}))
    claimed = with_unapplied(said, Assignment(active=frozenset({B, C}), learners=frozenset({D})))
    assert claimed.active == {A, B, C}
    assert claimed.suspended == frozenset(), "the loop resumes it when it acts on the assignment"
    assert set(claimed.learners) == {D}
    assert not claimed.learners[D].ready


def test_what_was_taken_away_stays_suspended_until_the_loop_has_closed_it() -> None:
    """Nobody resumes it here, so its learner may have it."""
    said = Subscription(IDENTITY.worker, bytes(8), suspended=frozenset({A, B}))
    assert with_unapplied(said, Assignment(active=frozenset({B}))).suspended == {A}
