"""When a worker that was told to leave may go."""

from __future__ import annotations

import pytest

from assignor.model import Assignment, TaskId
from kstreams_worker.tasks.leaving import LeaveCause, Leaving, ToldToLeave, Verdict

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
