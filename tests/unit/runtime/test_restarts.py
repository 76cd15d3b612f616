"""When a worker that ended is started again."""

from kstreams_worker.runtime.restarts import RestartPolicy, RestartSchedule

POLICY = RestartPolicy(first_delay_seconds=1, delay_seconds_max=5, stable_seconds=60, restarts_max=6)


def test_at_once_then_later_and_later_then_never() -> None:
    schedule = RestartSchedule(POLICY)
    assert [schedule.next_delay_seconds(ran_seconds=1) for _ in range(7)] == [0, 1, 2, 4, 5, 5, None]


def test_a_stable_run_forgets_earlier_failures() -> None:
    schedule = RestartSchedule(POLICY)
    for _ in range(4):
        schedule.next_delay_seconds(ran_seconds=1)
    assert schedule.next_delay_seconds(ran_seconds=60) == 0
    assert schedule.next_delay_seconds(ran_seconds=59) == 1
