"""When a worker that was told to leave may go."""

from __future__ import annotations

import pytest

from assignor.model import Assignment, TaskId
from kstreams_worker.tasks.leaving import PAUSE_S, LeaveCause, Leaving, ToldToLeave, Verdict

A, B = TaskId(0, 0), TaskId(0, 1)
ORDER, SIGNAL = LeaveCause.ORDER, LeaveCause.SIGNAL


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def leaving(*told: ToldToLeave, clock: Clock | None = None) -> Leaving:
    made = Leaving(clock or Clock())
    for each in told:
        made.tell(each)
    return made


@pytest.mark.parametrize(
    ("assignment", "verdict"),
    [
        (Assignment(), Verdict.DONE),
        (Assignment(active=frozenset({A, B}), being_learned=frozenset({A, B})), Verdict.STAY),
        (Assignment(active=frozenset({A, B}), being_learned=frozenset({A})), Verdict.NOBODY),
        (Assignment(active=frozenset({A})), Verdict.NOBODY),
    ],
)
def test_a_round_that_knew_decides(assignment: Assignment, verdict: Verdict) -> None:
    assert leaving(ToldToLeave(ORDER, None)).judge(assignment, said_leaving=True) is verdict


def test_a_round_that_did_not_know_decides_nothing() -> None:
    """It began before this worker was told; the next one will know."""
    assert leaving(ToldToLeave(ORDER, None)).judge(Assignment(), said_leaving=False) is Verdict.STAY


def test_who_was_told_nothing_stays() -> None:
    """Also without a task, and also if it said that it leaves before the order was taken back."""
    made = leaving()
    assert not made
    assert made.judge(Assignment(), said_leaving=True) is Verdict.STAY
    assert made.remaining_ms() is None


def test_time_runs_out() -> None:
    clock = Clock()
    made = leaving(ToldToLeave(ORDER, 5_000), clock=clock)
    assert made.remaining_ms() == 5_000
    clock.now += 4
    assert made.remaining_ms() == 1_000
    clock.now += 10
    assert made.remaining_ms() == 0


def test_an_order_can_be_taken_back_a_signal_cannot() -> None:
    made = leaving(ToldToLeave(ORDER, 5_000), ToldToLeave(SIGNAL, None))
    assert (made.cause, made.ordered) == (SIGNAL, True)
    assert made.take_back()
    assert (bool(made), made.cause, made.ordered, made.remaining_ms()) == (True, SIGNAL, False, None)
    assert not made.take_back()


def test_an_order_taken_back_leaves_nothing_behind() -> None:
    made = leaving(ToldToLeave(ORDER, None))
    assert made.take_back()
    assert not made
    assert made.cause is None


def test_the_shortest_patience_counts() -> None:
    made = leaving(ToldToLeave(ORDER, 60_000), ToldToLeave(SIGNAL, 1_000))
    assert made.remaining_ms() == 1_000


def test_it_stays_a_moment_after_the_last_task_is_handed_over() -> None:
    """Its leaving begins a round, which would hold up whoever took over."""
    clock = Clock()
    made = leaving(ToldToLeave(ORDER, None), clock=clock)
    assert made.reason_to_go() is None
    made.judge(Assignment(), said_leaving=True)
    assert made.reason_to_go() is None
    clock.now += PAUSE_S / 2
    made.judge(Assignment(), said_leaving=True)
    clock.now += PAUSE_S / 2
    assert made.reason_to_go() == "all tasks are handed over"


def test_a_task_that_comes_back_ends_the_moment() -> None:
    """As when the one that learned it has died: it is here again, to be handed over anew."""
    clock = Clock()
    made = leaving(ToldToLeave(SIGNAL, None), clock=clock)
    made.judge(Assignment(), said_leaving=True)
    made.judge(Assignment(active=frozenset({A}), being_learned=frozenset({A})), said_leaving=True)
    clock.now += 10 * PAUSE_S
    assert made.reason_to_go() is None


def test_its_own_deadline_ends_the_moment_too() -> None:
    clock = Clock()
    made = leaving(ToldToLeave(SIGNAL, 100), clock=clock)
    made.judge(Assignment(), said_leaving=True)
    clock.now += 0.1
    assert made.reason_to_go() == "all tasks are handed over"


def test_it_goes_with_tasks_when_the_time_is_over() -> None:
    clock = Clock()
    made = leaving(ToldToLeave(ORDER, 5_000), clock=clock)
    made.judge(Assignment(active=frozenset({A}), being_learned=frozenset({A})), said_leaving=True)
    assert made.reason_to_go() is None
    clock.now += 5
    assert made.reason_to_go() == "others had the time they were given to learn the tasks"


def test_where_nobody_may_take_the_tasks_a_signal_is_obeyed_and_an_order_waits() -> None:
    """A scheduler would kill the process; whoever gave the order may start another instance."""
    for cause, reason in ((SIGNAL, "no other instance may take the tasks"), (ORDER, None)):
        made = leaving(ToldToLeave(cause, None))
        made.judge(Assignment(active=frozenset({A})), said_leaving=True)
        assert made.reason_to_go() == reason


def test_an_order_taken_back_in_the_last_moment_is_taken_back() -> None:
    clock = Clock()
    made = leaving(ToldToLeave(ORDER, None), clock=clock)
    made.judge(Assignment(), said_leaving=True)
    made.take_back()
    clock.now += PAUSE_S
    assert made.reason_to_go() is None


def test_an_order_that_never_was_cannot_keep_a_worker_from_leaving() -> None:
    clock = Clock()
    made = leaving(ToldToLeave(SIGNAL, None), clock=clock)
    made.judge(Assignment(), said_leaving=True)
    assert not made.take_back()
    clock.now += PAUSE_S
    assert made.reason_to_go() == "all tasks are handed over"
