"""Who joins when, as the workers of an instance get ready one after the other."""

from __future__ import annotations

from kstreams_worker.runtime.start_barrier import LATE_SECONDS, StartBarrier


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_all_join_once_the_last_one_is_ready() -> None:
    barrier = StartBarrier(range(3), Clock())
    assert barrier.due is None
    for worker in (2, 0):
        barrier.prepared(worker)
        assert barrier.to_join() == set()
    assert barrier.due == 100.0 + LATE_SECONDS
    barrier.prepared(1)
    assert barrier.to_join() == {0, 1, 2}
    assert barrier.to_join() == set()
    assert barrier.due is None


def test_one_that_is_late_joins_by_itself() -> None:
    clock = Clock()
    barrier = StartBarrier(range(3), clock)
    clock.now += 60
    assert barrier.to_join() == set(), "nobody is ready, so nobody waits"
    barrier.prepared(0)
    clock.now += LATE_SECONDS / 2
    barrier.prepared(1)
    assert barrier.to_join() == set()
    clock.now += LATE_SECONDS / 2
    assert barrier.to_join() == {0, 1}, "the first one has waited long enough"
    barrier.prepared(2)
    assert barrier.to_join() == {2}


def test_nobody_waits_for_one_that_died() -> None:
    barrier = StartBarrier(range(2), Clock())
    barrier.prepared(0)
    barrier.ended(1)
    assert barrier.to_join() == {0}
    barrier.ended(0)
    assert barrier.to_join() == set()


def test_one_that_died_while_it_waited_is_not_told_to_join() -> None:
    barrier = StartBarrier(range(2), Clock())
    barrier.prepared(0)
    barrier.ended(0)
    barrier.prepared(1)
    assert barrier.to_join() == {1}
