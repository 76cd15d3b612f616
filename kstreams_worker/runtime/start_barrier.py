"""The workers of a starting instance join their group together, so that one round deals with them all.

A worker that is late, or dies before it could join, holds up the others for a moment at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

LATE_SECONDS = 3.0
"""How long the first worker that could join waits for the others."""


class StartBarrier:
    """Owned by the supervisor's loop. `clock` gives seconds that never go back."""

    def __init__(self, workers: Iterable[int], clock: Callable[[], float], late_seconds: float = LATE_SECONDS) -> None:
        self._clock = clock
        self._late_seconds = late_seconds
        self._awaited = set(workers)
        self._waiting: set[int] = set()
        self.due: float | None = None
        """When to stop waiting; None while nobody waits."""

    def prepared(self, worker: int) -> None:
        """This worker could join."""
        self._awaited.discard(worker)
        self._waiting.add(worker)
        if self.due is None:
            self.due = self._clock() + self._late_seconds

    def ended(self, worker: int) -> None:
        """This worker has died: when it is started again, it joins by itself."""
        self._awaited.discard(worker)
        self._waiting.discard(worker)

    def to_join(self) -> set[int]:
        """The workers that are to join now; each of them is named once."""
        if self._awaited and (self.due is None or self._clock() < self.due):
            return set()
        joining, self._waiting = self._waiting, set()
        self._awaited.clear()
        self.due = None
        return joining
