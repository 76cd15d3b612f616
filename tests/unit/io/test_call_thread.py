"""Calls in a thread of their own: their outcome comes back, and one that hangs can be given up."""

import threading

import pytest

from kstreams_worker.io.call_thread import CallThread


def test_results_and_errors_come_back_to_the_caller() -> None:
    calls = CallThread("calls")
    assert calls.submit(lambda: threading.current_thread().name).result(30) == "calls"
    with pytest.raises(ZeroDivisionError):
        calls.submit(lambda: 1 // 0).result(30)
    calls.close()


def test_a_call_that_does_not_return_is_given_up_and_holds_nothing_back() -> None:
    calls = CallThread("calls")
    released = threading.Event()
    with pytest.raises(TimeoutError):
        calls.submit(released.wait).result(0.01)
    [thread] = [thread for thread in threading.enumerate() if thread.name == "calls"]
    assert thread.daemon, "it must not keep the process alive"
    calls.close()
    released.set()
    thread.join(30)
    assert not thread.is_alive()
