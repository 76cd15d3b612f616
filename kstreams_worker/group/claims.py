"""What the last assignment gave a member while its loop has yet to act on it. Pure; the group plane and the simulator run it.

A loop that is busy with a slow record sees its assignment late, perhaps after the next round has begun. What that gave is
the member's own all the same: the next join claims it, and what others learn of it is asked for before.
"""

from __future__ import annotations

from assignor.model import Assignment, Subscription, TaskId
from kstreams_worker.tasks.plan import with_unapplied


class Claims:
    """Whoever owns it guards it."""

    def __init__(self) -> None:
        self._unapplied: Assignment | None = None

    def assigned(self, assignment: Assignment) -> None:
        """A round has ended with this; the loop is told."""
        self._unapplied = assignment

    def applied(self, assignment: Assignment) -> None:
        """The loop has acted on this assignment, which may not be the newest."""
        if assignment is self._unapplied:
            self._unapplied = None

    def drop(self) -> None:
        """The membership is over, and with it all that it gave."""
        self._unapplied = None

    def to_say(self, published: Subscription) -> Subscription:
        """What to join with, made of what the loop says."""
        return with_unapplied(published, self._unapplied)

    def being_learned(self, published: frozenset[TaskId]) -> frozenset[TaskId]:
        """This member's tasks that others learn: those that the loop knows of, and those it has yet to hear of."""
        return published if self._unapplied is None else published | self._unapplied.being_learned
