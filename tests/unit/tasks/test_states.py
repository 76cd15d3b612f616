"""The state tables: legal ways through them, and that an illegal event changes nothing."""

from __future__ import annotations

import pytest

from kstreams_worker.group.states import MEMBER_TABLE, MemberEvent, MemberState, member_machine
from kstreams_worker.machine import IllegalEvent
from kstreams_worker.tasks.states import TASK_TABLE, TaskEvent, TaskState, task_machine


def test_a_learner_becomes_active_and_hands_on() -> None:
    """A learner follows, is ready, takes over, is learned itself, and ends."""
    machine = task_machine("0_1")
    for event in (
        TaskEvent.FOLLOW,
        TaskEvent.CAUGHT_UP,
        TaskEvent.PROMOTE,
        TaskEvent.STARTED,
        TaskEvent.SUSPEND,
        TaskEvent.CLOSE,
    ):
        machine.fire(event)
    assert machine.state is TaskState.CLOSED


def test_a_suspended_task_resumes_or_stays_as_a_copy() -> None:
    """A being-learned task whose learner was not ready goes on; one that was taken may stay on as a standby."""
    machine = task_machine("0_1")
    for event in (TaskEvent.PROMOTE, TaskEvent.STARTED, TaskEvent.SUSPEND, TaskEvent.RESUME, TaskEvent.SUSPEND):
        machine.fire(event)
    machine.fire(TaskEvent.DEMOTE)
    assert machine.state is TaskState.RESTORING


@pytest.mark.parametrize("state", TaskState)
def test_an_illegal_event_raises_and_changes_nothing(state: TaskState) -> None:
    """Whatever the table does not list is refused, and the machine is as before."""
    for event in set(TaskEvent) - set(TASK_TABLE[state]):
        machine = task_machine("0_1")
        machine.state = state
        with pytest.raises(IllegalEvent, match=event.name):
            machine.fire(event)
        assert machine.state is state


def test_a_running_task_is_never_closed_by_being_demoted_directly() -> None:
    """A running task must be committed and suspended before the restore thread may have its stores."""
    assert TaskEvent.DEMOTE not in TASK_TABLE[TaskState.RUNNING]


@pytest.mark.parametrize("state", set(MemberState) - {MemberState.LEFT})
def test_a_member_can_be_lost_in_every_state(state: MemberState) -> None:
    """The broker may declare a member dead at any time."""
    machine = member_machine()
    machine.state = state
    assert machine.fire(MemberEvent.LOST) is MemberState.UNJOINED


def test_every_member_state_but_the_last_can_be_left() -> None:
    """From everywhere a member can leave; having left it does nothing more."""
    assert all(events for state, events in MEMBER_TABLE.items() if state is not MemberState.LEFT)
    assert MEMBER_TABLE[MemberState.LEFT] == {}
