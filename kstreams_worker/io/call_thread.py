"""A thread for calls that block, so that their owner can do something else meanwhile, or give up on one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")


class CallThread:
    """Makes calls one at a time, in the order in which they came.

    The thread is a daemon: one that hangs in a call does not keep the process alive. Once a call has been given up the
    thread is of no more use: close it and make another. It ends when the lost call returns, if ever.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, function: Callable[[], Result]) -> Future[Result]:
        """Have the call made; what it returns or raises is in the future."""
        outcome: Future[Result] = Future()
        self._calls.put((outcome, function))
        return outcome

    def close(self) -> None:
        """End the thread once its current call has returned."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            outcome, function = call
            try:
                outcome.set_result(function())
            except BaseException as error:  # it is the owner's to judge
                outcome.set_exception(error)
