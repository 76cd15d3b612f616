"""Calls without a deadline of their own get one."""

import threading

import pytest

from kstreams_worker.io.deadline import DeadlineCaller


def test_results_and_errors_come_back_to_the_caller() -> None:
    caller = DeadlineCaller("calls")
    done: list[str] = []
    caller.call(lambda: done.append(threading.current_thread().name), 30)
    assert done == ["calls"]
    with pytest.raises(ZeroDivisionError):
        caller.call(lambda: done.append(str(1 // 0)), 30)
    caller.close()


def test_a_call_that_does_not_return_is_given_up_and_holds_nothing_back() -> None:
    caller = DeadlineCaller("calls")
    released = threading.Event()
    with pytest.raises(TimeoutError):
        caller.call(lambda: released.wait() and None, 0.01)
    [thread] = [thread for thread in threading.enumerate() if thread.name == "calls"]
    assert thread.daemon, "it must not keep the process alive"
    caller.close()
    released.set()
    thread.join(30)
    assert not thread.is_alive()
