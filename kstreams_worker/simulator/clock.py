"""Simulated time: a queue of things to happen, in the order of their time and then of their making."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

Action = Callable[[], None]


class Timer:
    """Something that is to happen, unless it is cancelled."""

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action

    def cancel(self) -> None:
        self.action = None


class Clock:
    """The time of a simulation, in whole milliseconds. It jumps from one event to the next."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._queue: list[tuple[int, int, Timer]] = []
        self._order = count()

    def after(self, delay_ms: float, action: Action) -> Timer:
        """Let something happen after a while; not before what is due at the same millisecond already."""
        timer = Timer(action)
        heappush(self._queue, (self.now_ms + max(0, round(delay_ms)), next(self._order), timer))
        return timer

    def pending(self) -> bool:
        """Whether anything is still to happen."""
        return any(timer.action is not None for _, _, timer in self._queue)

    def step(self, until_ms: int) -> bool:
        """Let the next thing happen if it is due by then. Returns whether there was one."""
        while self._queue and self._queue[0][0] <= until_ms:
            at_ms, _, timer = heappop(self._queue)
            if timer.action is not None:
                self.now_ms = at_ms
                timer.action()
                return True
        return False
