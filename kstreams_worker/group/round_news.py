"""What a member knows of the round that ends its generation: who started it, and which learners are ready. Pure.

A member that knows which learners are ready suspends the tasks that these learn, and goes on with others that are being
learned. If it was wrong, the leader sees a ready learner of a task that runs, and asks its owner for one more round.
"""

from __future__ import annotations

from assignor.model import TaskId
from kstreams_worker.control.records import Nudge


class RoundNews:
    """Begun anew with each generation. Owned by one thread."""

    def __init__(self) -> None:
        self._generation = -1
        self._suspend_all = True
        self._explained = False
        self._nudged = False
        self._ready: frozenset[TaskId] = frozenset()
        self._early: Nudge | None = None

    def begin(self, generation: int, *, rejoin: bool) -> bool:
        """A generation began. `rejoin`: the leader asked this member for one more round, so what it has being learned goes.

        Returns whether somebody has started the next round already.
        """
        self._generation = generation
        self._suspend_all = rejoin
        self._explained = False
        self._nudged = False
        self._ready = frozenset()
        early, self._early = self._early, None
        return early is not None and self.hear(early)

    def start(self, member: str, ready: frozenset[TaskId]) -> Nudge | None:
        """This member starts a round, with these learners ready. Returns what to tell the others, if it is news."""
        if self._generation < 0 or (self._nudged and self._explained and ready <= self._ready):
            return None
        self._take_in(ready)
        return Nudge(generation=self._generation, member=member, ready=tuple(map(str, sorted(ready))))

    def notice(self, member: str) -> Nudge | None:
        """The broker says that a round is on, and nobody else has said so yet."""
        if self._generation < 0 or self._nudged:
            return None
        self._nudged = True
        return Nudge(generation=self._generation, member=member)

    def hear(self, nudge: Nudge) -> bool:
        """Another member's nudge. Returns whether it is about the present generation."""
        if nudge.generation > self._generation:  # its sender has had its assignment before this member
            self._early = nudge
        if nudge.generation != self._generation:
            return False
        self._nudged = True
        ready = nudge.ready_tasks()
        if ready is not None:
            self._take_in(ready)
        return True

    def to_suspend(self, being_learned: frozenset[TaskId]) -> frozenset[TaskId]:
        """Of the tasks that are being learned here, those to suspend before joining."""
        if self._suspend_all or not self._explained:
            return being_learned
        return being_learned & self._ready

    def _take_in(self, ready: frozenset[TaskId]) -> None:
        self._explained = True
        self._nudged = True
        self._ready |= ready
