"""A deadline for calls that have none of their own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future


class DeadlineCaller:
    """Makes calls in a thread of its own, one at a time, so that its owner can give up on one that does not return.

    Once a call has been given up the caller is of no more use: close it and make another. The thread is a daemon, and
    ends when the lost call returns, if ever.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[None], Callable[[], None]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, function: Callable[[], None], timeout_s: float) -> None:
        """Return when `function` has, and raise what it raises. Raises TimeoutError after `timeout_s`."""
        outcome: Future[None] = Future()
        self._calls.put((outcome, function))
        outcome.result(timeout_s)

    def close(self) -> None:
        """End the thread once its current call has returned."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            outcome, function = call
            try:
                function()
            except BaseException as error:  # it is the owner's to judge
                outcome.set_exception(error)
            else:
                outcome.set_result(None)
