"""When the loop commits: at its interval, and early for tasks that stood still."""

from __future__ import annotations

from assignor.model import TaskId
from kstreams_worker.runtime.commit_timing import EARLY_COMMIT_WAIT_S, CommitTiming
from kstreams_worker.tasks.states import Role, TaskEvent
from kstreams_worker.tasks.task import Task

INTERVAL_S = 10.0


def running_task(partition: int = 0) -> Task:
    task = Task(TaskId(0, partition), Role.ACTIVE, True, (("words", partition),))
    for event in (TaskEvent.PROMOTE, TaskEvent.STARTED):
        task.machine.fire(event)
    return task


def process(task: Task) -> None:
    task.positions[task.inputs[0]] = 1


def after_a_commit(now: float) -> CommitTiming:
    timing = CommitTiming(INTERVAL_S)
    timing.begun(now)
    return timing


def test_the_first_commit_is_due_at_once_and_each_other_after_the_interval() -> None:
    timing = CommitTiming(INTERVAL_S)
    assert timing.is_due(100)
    timing.begun(100)
    assert not timing.is_due(109.9)
    assert timing.is_due(110)


def test_a_due_commit_that_cannot_begin_stays_due() -> None:
    """A round is on, or another commit is under way."""
    timing = after_a_commit(100)
    assert timing.is_due(110)
    assert timing.is_due(111)


def test_a_task_that_stood_still_is_committed_with_its_first_records() -> None:
    """And not before: there would be nothing of it to commit."""
    timing, task = after_a_commit(100), running_task()
    timing.started(task)
    assert not timing.is_due(101)
    process(task)
    assert timing.is_due(102)
    timing.begun(102)
    assert not timing.is_due(103)


def test_tasks_taken_over_together_are_committed_together() -> None:
    timing, first, second = after_a_commit(100), running_task(0), running_task(1)
    timing.started(first)
    timing.started(second)
    process(first)
    assert not timing.is_due(101)
    process(second)
    assert timing.is_due(101)


def test_a_task_without_input_holds_up_the_others_for_a_moment_only() -> None:
    """It is committed early itself, when its first record comes."""
    timing, first, quiet = after_a_commit(100), running_task(0), running_task(1)
    timing.started(first)
    timing.started(quiet)
    process(first)
    assert not timing.is_due(101)
    assert timing.is_due(101 + EARLY_COMMIT_WAIT_S)
    timing.begun(102)
    assert not timing.is_due(103)
    process(quiet)
    assert timing.is_due(104)


def test_a_task_that_is_taken_away_again_is_not_waited_for() -> None:
    timing, first, gone = after_a_commit(100), running_task(0), running_task(1)
    timing.started(first)
    timing.started(gone)
    gone.machine.fire(TaskEvent.SUSPEND)
    process(first)
    assert timing.is_due(101)
