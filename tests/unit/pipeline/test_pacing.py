"""Which records are written when: windows without gaps, at any rate."""

from itertools import islice

import pytest

from kstreams_worker.pipeline.pacing import UNPACED_WINDOW_RECORDS, tasks_per_window, windows


@pytest.mark.parametrize("rate", [None, 0.3, 1, 7.5, 1000, 123_456.7])
@pytest.mark.parametrize("records", [0, 1, 999, 260_000])
def test_windows_cover_every_record_once(rate: float | None, records: int) -> None:
    """The windows follow each other without gap or overlap, whatever the rate."""
    position = 40
    for window in windows(40, records, rate):
        assert window.first == position
        assert window.count > 0
        position += window.count
    assert position == 40 + records


def test_window_with_a_rate_is_about_a_second() -> None:
    """A window is due when the records before it have taken their time."""
    first, second, third = islice(windows(10, None, 250.5), 3)
    assert (first.first, first.count, first.due_s) == (10, 250, 0.0)
    assert (second.count, third.count) == (251, 250)
    assert second.due_s == pytest.approx(250 / 250.5)
    assert third.due_s == pytest.approx(501 / 250.5)


def test_slow_rates_wait_between_windows() -> None:
    """A rate below one a second gives windows of one record, each due in its time."""
    due = [window.due_s for window in islice(windows(0, None, 0.5), 4)]
    assert due == [0.0, 2.0, 4.0, 6.0]


def test_windows_without_a_rate_are_large_and_due_at_once() -> None:
    """As fast as it goes."""
    found = list(windows(0, UNPACED_WINDOW_RECORDS + 1, None))
    assert [window.count for window in found] == [UNPACED_WINDOW_RECORDS, 1]
    assert {window.due_s for window in found} == {0.0}


def test_high_rates_get_more_tasks() -> None:
    """One task keeps up with 50 000 records a second."""
    assert [tasks_per_window(rate) for rate in (0.1, 50_000, 50_001, 200_000)] == [1, 1, 2, 4]
