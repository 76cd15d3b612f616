"""What a worker does with its tasks when an assignment or the restore thread says so: who has the stores, what is committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

import pytest

from assignor.model import Assignment, CopyState, LagRecords, TaskId, WorkerId
from kstreams_worker.io.failures import ProducerLost
from kstreams_worker.observe.metrics import WorkerMetrics
from kstreams_worker.restore.events import CaughtUp, Closed, FellBehind, Finished, TaskFailed
from kstreams_worker.runtime.processor import Processor
from kstreams_worker.runtime.worker_tasks import TaskParts, WorkerTasks
from kstreams_worker.tasks.plan import plan
from kstreams_worker.tasks.states import Role, TaskState
from kstreams_worker.tasks.task import Task
from kstreams_worker.topology.records import Partition
from state import KeyValueStore, StateResources, StoreSpec, open_store

A, B, C = (TaskId(0, partition) for partition in range(3))
OFFSETS: Mapping[Partition, int] = {("words", 0): 7}


class Calls:
    """Everything that the tasks ask of others, in order; in the place of the restore thread and the data path."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.takes_commits = True
        self.loses = False
        self.running: list[Task] = []

    # the restore thread

    def follow(self, task: Task) -> None:
        self.told.append(f"follow {task.id}")

    def finish(self, task: Task, fence: Iterable[WorkerId] = ()) -> None:
        self.told.append(f"finish {task.id}")

    def drop(self, task: Task) -> None:
        self.told.append(f"drop {task.id}")

    # the data path; and closing, which the restore thread does for a task, and the data path for itself

    def close(self, task: Task | None = None) -> None:
        self.told.append(f"close {task.id}" if task else "close the processor")

    def commit(self) -> bool:
        self.told.append("commit")
        return self.takes_commits

    def abort(self) -> None:
        self.told.append("abort")
        if self.loses:
            raise ProducerLost("for the test")

    def start(self, task: Task, offsets: Mapping[Partition, int]) -> None:
        assert offsets == OFFSETS
        self.told.append(f"start {task.id}")
        self.running.append(task)

    def stop(self, tasks: Iterable[Task]) -> None:
        for task in list(tasks):
            self.told.append(f"stop {task.id}")
            self.running.remove(task)

    def resume(self, task: Task) -> None:
        self.told.append(f"resume {task.id}")
        self.running.append(task)


class Setting:
    def __init__(self, directory: Path) -> None:
        self.calls = Calls()
        self.processors = 0
        self.dormant: dict[TaskId, CopyState] = {}
        self.started: list[Task] = []
        self._directory = directory
        self.tasks = WorkerTasks(
            TaskParts(
                restorer=self.calls,
                new_processor=self._new_processor,
                new_task=lambda task_id, role: Task(task_id, role, True, (("words", task_id.partition),)),
                bind=lambda task: None,
                close_task=lambda task: self.calls.told.append(f"close {task.id} here"),
                dormant=lambda: dict(self.dormant),
                metrics=WorkerMetrics(),
            ),
            self.started.append,
        )

    def _new_processor(self) -> Processor:
        self.processors += 1
        return cast(Processor, self.calls)

    def assign(self, **roles: Iterable[TaskId]) -> list[str]:
        """What is done for an assignment of these tasks."""
        assignment = Assignment(**{role: frozenset(tasks) for role, tasks in roles.items()})
        self.calls.told.clear()
        self.tasks.take(plan(self.tasks.views(), assignment), assignment)
        return self.calls.told

    def run(self, *tasks: TaskId) -> None:
        """Have these processed."""
        self.assign(active=tasks)
        for task in tasks:
            assert self.tasks.on_restore_event(Finished(self.tasks.by_id[task], OFFSETS))
        self.calls.told.clear()

    def store(self, task: TaskId) -> KeyValueStore:
        """Give the task a store with a changelog."""
        made = open_store(StoreSpec("counts"), self._directory / str(task), StateResources())
        held = self.tasks.by_id[task]
        held.stores["counts"] = held.changelogs["app-counts-changelog", task.partition] = made
        return made


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


def test_an_active_task_is_completed_and_then_runs(setting: Setting) -> None:
    assert setting.assign(active=[A]) == ["finish 0_0"]
    task = setting.tasks.by_id[A]
    assert task.state is TaskState.FINISHING
    assert setting.tasks.on_restore_event(Finished(task, OFFSETS))
    assert task.state is TaskState.RUNNING
    assert setting.started == [task]


def test_all_that_is_given_up_is_committed_once(setting: Setting) -> None:
    """The tasks that stay go on, and what comes new comes last."""
    setting.run(A, B, C)
    assert setting.assign(active=[C], standbys=[B], learners=[TaskId(1, 0)]) == [
        "commit",
        "stop 0_0",
        "stop 0_1",
        "close 0_0",
        "follow 0_1",
        "follow 1_0",
    ]
    assert setting.calls.running == [setting.tasks.by_id[C]]


def test_what_cannot_be_committed_is_undone_before_it_is_given_up(setting: Setting) -> None:
    """Its next owner begins at the last commit."""
    setting.run(A)
    setting.calls.takes_commits = False
    assert setting.assign() == ["commit", "abort", "stop 0_0", "close 0_0"]


def test_a_suspended_task_that_stays_goes_on_from_its_open_state(setting: Setting) -> None:
    setting.run(A)
    setting.tasks.suspend([setting.tasks.by_id[A]])
    assert setting.assign(active=[A]) == ["resume 0_0"]
    assert setting.started == [setting.tasks.by_id[A]] * 2


def test_a_standby_becomes_active(setting: Setting) -> None:
    setting.assign(standbys=[A])
    assert setting.assign(active=[A]) == ["finish 0_0"]
    assert setting.tasks.by_id[A].role is Role.ACTIVE


def test_a_copy_is_closed_by_the_restore_thread_which_has_it(setting: Setting) -> None:
    setting.assign(standbys=[A])
    assert setting.assign() == ["drop 0_0"]
    assert setting.tasks.by_id == {}


def test_state_that_is_being_closed_is_told_as_if_it_were(setting: Setting) -> None:
    """Otherwise the leader might give the task to somebody who has less of it."""
    setting.run(A)
    store = setting.store(A)
    setting.assign()
    assert setting.tasks.left_on_disk == {A: CopyState(LagRecords(0))}
    setting.dormant = {A: CopyState(LagRecords(12))}
    assert setting.tasks.on_restore_event(Closed(A, None))
    assert setting.tasks.left_on_disk == {A: CopyState(LagRecords(12))}
    store.close()


def test_copies_tell_when_they_have_caught_up_or_fallen_behind(setting: Setting) -> None:
    setting.assign(learners=[A])
    task = setting.tasks.by_id[A]
    assert setting.tasks.on_restore_event(CaughtUp(task))
    assert task.state is TaskState.READY
    assert setting.tasks.on_restore_event(FellBehind(task))
    assert task.state is TaskState.RESTORING


def test_news_of_a_task_that_was_taken_away_meanwhile_changes_nothing(setting: Setting) -> None:
    """Complete, it comes here nevertheless, and is given back to be closed."""
    setting.assign(active=[A], learners=[B])
    finished, learner = setting.tasks.by_id[A], setting.tasks.by_id[B]
    setting.assign()
    setting.calls.told.clear()
    assert not setting.tasks.on_restore_event(CaughtUp(learner))
    assert not setting.tasks.on_restore_event(TaskFailed(learner, OSError("no space left on device")))
    assert not setting.tasks.on_restore_event(Finished(finished, OFFSETS))
    assert setting.calls.told == ["close 0_0"]


def test_a_task_that_fails_ends_the_worker(setting: Setting) -> None:
    setting.assign(active=[A])
    with pytest.raises(OSError, match="no space"):
        setting.tasks.on_restore_event(TaskFailed(setting.tasks.by_id[A], OSError("no space left on device")))


def test_a_worker_that_is_out_of_the_group_undoes_and_drops_everything(setting: Setting) -> None:
    """At once, and here, for what it holds: it may be given the same tasks again in a moment."""
    setting.run(A)
    setting.assign(active=[A], standbys=[B])
    setting.calls.told.clear()
    setting.tasks.drop_all(lost=False)
    assert setting.calls.told == ["abort", "stop 0_0", "close 0_0 here", "drop 0_1"]
    assert (setting.tasks.by_id, setting.processors) == ({}, 1)


@pytest.mark.parametrize("found_out_when_it_aborts", [False, True])
def test_a_worker_whose_producer_is_lost_goes_on_with_a_new_one(
    setting: Setting, *, found_out_when_it_aborts: bool
) -> None:
    setting.run(A)
    setting.calls.loses = found_out_when_it_aborts
    setting.tasks.drop_all(lost=not found_out_when_it_aborts)
    assert setting.calls.told == ["abort", "stop 0_0", "close the processor", "close 0_0 here"]
    assert setting.processors == 2


def test_at_the_end_each_thread_closes_what_it_has(setting: Setting) -> None:
    setting.run(A)
    setting.assign(active=[A], standbys=[B])
    setting.calls.told.clear()
    setting.tasks.close()
    assert setting.calls.told == ["close 0_0"]
