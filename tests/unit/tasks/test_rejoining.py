"""When a worker asks for a round: for its ready learners, and for one that the leader wants."""

from __future__ import annotations

from dataclasses import replace

from assignor.model import Assignment, LagRecords, TaskId
from kstreams_worker.tasks.plan import Step, TaskStep, TaskView
from kstreams_worker.tasks.rejoining import RETRY_S, SAME_ASKS_MAX, Rejoining, rejoin_is_vain, wants_rejoin
from kstreams_worker.tasks.states import Role, TaskState

A, B, C, D = (TaskId(0, partition) for partition in range(4))
NOTHING: frozenset[TaskId] = frozenset()


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def view(role: Role, state: TaskState) -> TaskView:
    return TaskView(role, state, stateful=True, lag=LagRecords(0))


def learner(state: TaskState) -> TaskView:
    return view(Role.LEARNER, state)


def test_each_ready_learner_asks_for_a_round_once() -> None:
    """Partial rebalancing: one round for each newly ready learner, none for one already declared."""
    tasks = {A: view(Role.LEARNER, TaskState.READY), B: view(Role.LEARNER, TaskState.RESTORING)}
    assert wants_rejoin(tasks, frozenset(), partial=True)
    assert not wants_rejoin(tasks, frozenset({A}), partial=True)


def test_conservative_rebalancing_waits_for_all_learners() -> None:
    """With learner.partial.rebalance off a round is asked for only when every learner is ready."""
    tasks = {A: view(Role.LEARNER, TaskState.READY), B: view(Role.LEARNER, TaskState.RESTORING)}
    assert not wants_rejoin(tasks, frozenset(), partial=False)
    tasks[B] = view(Role.LEARNER, TaskState.READY)
    assert wants_rejoin(tasks, frozenset(), partial=False)


def test_standbys_ask_for_nothing() -> None:
    """A standby that is up to date is no reason for a round."""
    assert not wants_rejoin({A: view(Role.STANDBY, TaskState.READY)}, frozenset(), partial=True)


def test_a_rejoin_is_in_vain_while_what_is_learned_cannot_be_suspended() -> None:
    """A ready learner of a task that its owner still restores must not make a round follow the other without end."""
    asked = Assignment(active=frozenset({A, B}), being_learned=frozenset({A}), rejoin=True)
    tasks = {A: view(Role.ACTIVE, TaskState.FINISHING), B: view(Role.ACTIVE, TaskState.FINISHING)}
    assert rejoin_is_vain(tasks, asked, [])
    tasks[A] = view(Role.ACTIVE, TaskState.RUNNING)
    assert not rejoin_is_vain(tasks, asked, [])


def test_a_rejoin_is_not_in_vain_when_something_was_given_up() -> None:
    """Who takes it over waits for this worker's next join; and who was not asked to join has nothing to wait for."""
    asked = Assignment(active=frozenset({A}), being_learned=frozenset({A}), rejoin=True)
    tasks = {A: view(Role.ACTIVE, TaskState.FINISHING)}
    assert not rejoin_is_vain(tasks, asked, [TaskStep(Step.CLOSE, B, Role.ACTIVE)])
    assert not rejoin_is_vain(tasks, asked, [TaskStep(Step.DEMOTE, B, Role.STANDBY)])
    assert rejoin_is_vain(tasks, asked, [TaskStep(Step.CLOSE, B, Role.STANDBY)])
    assert not rejoin_is_vain(tasks, replace(asked, rejoin=False), [])


def test_a_ready_learner_is_declared_once_and_again_after_a_while() -> None:
    """It got no task meanwhile: perhaps the round it asked for never was."""
    clock = Clock()
    rejoining = Rejoining(clock, partial=True)
    tasks = {A: learner(TaskState.READY), B: learner(TaskState.RESTORING)}
    assert rejoining.to_declare(tasks) == {A}
    clock.now += RETRY_S / 2
    assert rejoining.to_declare(tasks) == NOTHING
    clock.now += RETRY_S / 2
    assert rejoining.to_declare(tasks) == {A}


def test_all_ready_learners_are_declared_with_a_new_one() -> None:
    rejoining = Rejoining(Clock(), partial=True)
    assert rejoining.to_declare({A: learner(TaskState.READY), B: learner(TaskState.RESTORING)}) == {A}
    assert rejoining.to_declare({A: learner(TaskState.READY), B: learner(TaskState.READY)}) == {A, B}


def test_a_learner_that_became_ready_during_the_round_asks_again() -> None:
    """The leader did not know of it. One that the leader knew of, and left as it is, waits."""
    rejoining = Rejoining(Clock(), partial=True)
    tasks = {A: learner(TaskState.READY), B: learner(TaskState.READY)}
    assert rejoining.to_declare(tasks) == {A, B}
    assert not rejoining.acted_on(Assignment(learners=frozenset({A, B})), tasks, [], said_ready=frozenset({A}))
    assert rejoining.to_declare(tasks) == {A, B}
    assert not rejoining.acted_on(Assignment(learners=frozenset({A, B})), tasks, [], said_ready=frozenset({A, B}))
    assert rejoining.to_declare(tasks) == NOTHING


def test_a_round_is_asked_for_at_once_where_the_leader_wants_one() -> None:
    rejoining = Rejoining(Clock(), partial=True)
    assert rejoining.acted_on(Assignment(rejoin=True), {}, [], NOTHING)
    assert not rejoining.is_owed({})


def test_a_round_in_vain_is_put_off_until_what_is_learned_runs() -> None:
    """Then it is asked for, once."""
    rejoining = Rejoining(Clock(), partial=True)
    asked = Assignment(active=frozenset({A}), being_learned=frozenset({A}), rejoin=True)
    assert not rejoining.acted_on(asked, {A: view(Role.ACTIVE, TaskState.FINISHING)}, [], NOTHING)
    assert not rejoining.is_owed({A: view(Role.ACTIVE, TaskState.FINISHING)})
    assert rejoining.is_owed({A: view(Role.ACTIVE, TaskState.RUNNING)})
    assert not rejoining.is_owed({A: view(Role.ACTIVE, TaskState.RUNNING)})


def test_a_round_is_not_put_off_for_ever() -> None:
    """Its state may take long to restore; whoever learns it must hear from the leader meanwhile."""
    clock = Clock()
    rejoining = Rejoining(clock, partial=True)
    tasks = {A: view(Role.ACTIVE, TaskState.FINISHING)}
    rejoining.acted_on(Assignment(active=frozenset({A}), being_learned=frozenset({A}), rejoin=True), tasks, [], NOTHING)
    clock.now += RETRY_S
    assert rejoining.is_owed(tasks)


def test_a_worker_that_lost_its_tasks_owes_nothing() -> None:
    clock = Clock()
    rejoining = Rejoining(clock, partial=True)
    tasks = {A: view(Role.ACTIVE, TaskState.FINISHING), B: learner(TaskState.READY)}
    rejoining.acted_on(Assignment(active=frozenset({A}), being_learned=frozenset({A}), rejoin=True), tasks, [], NOTHING)
    rejoining.to_declare(tasks)
    rejoining.forget()
    clock.now += RETRY_S
    assert not rejoining.is_owed(tasks)
    assert rejoining.to_declare(tasks) == {B}


def test_a_leader_that_asks_for_the_same_again_and_again_gets_a_round_now_and_then() -> None:
    """Its reason is something that rounds do not change; without an end to it there would be hundreds in a second."""
    clock = Clock()
    rejoining = Rejoining(clock, partial=True)
    asked = Assignment(active=frozenset({A}), being_learned=frozenset({A}), rejoin=True)
    tasks = {A: view(Role.ACTIVE, TaskState.RUNNING)}
    answers = [rejoining.acted_on(asked, tasks, [], NOTHING) for _ in range(SAME_ASKS_MAX + 2)]
    assert answers == [True] * SAME_ASKS_MAX + [False] * 2
    assert not rejoining.is_owed(tasks)
    clock.now += RETRY_S
    assert rejoining.is_owed(tasks)
    assert not rejoining.acted_on(asked, tasks, [], NOTHING)
    assert rejoining.acted_on(replace(asked, being_learned=frozenset({B})), tasks, [], NOTHING), "that is news"
