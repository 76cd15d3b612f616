"""When the processing loop commits: at its interval, and early for tasks that stood still. Pure: it is told the time."""

from __future__ import annotations

from kstreams_worker.tasks.states import TaskState
from kstreams_worker.tasks.task import Task

EARLY_COMMIT_WAIT_S = 0.03
"""How long the first records of a task that stood still wait for those of others taken over with it."""


class CommitTiming:
    """Owned by the processing loop. Times are monotonic seconds."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._next = 0.0
        self._fresh: list[Task] = []
        """Tasks that were taken over, or resumed, and for whose first records there has been no commit yet."""
        self._early_at: float | None = None

    def started(self, task: Task) -> None:
        """This task processes now, and did not before."""
        self._fresh.append(task)

    def is_due(self, now: float) -> bool:
        """Whether to commit now. It stays due until a commit has `begun`."""
        if self._fresh:
            self._commit_early(now)
        return now >= self._next

    def _commit_early(self, now: float) -> None:
        """The first records of tasks that stood still are committed at once: their outputs have waited long enough.

        Tasks that were taken over together get one commit together: the second would have to wait for the first.
        """
        waiting = [task for task in self._fresh if task.state is TaskState.RUNNING and not task.positions]
        if len(waiting) == len(self._fresh):
            return
        self._early_at = self._early_at or now + EARLY_COMMIT_WAIT_S
        if not waiting or now >= self._early_at:
            self._fresh, self._early_at = waiting, None
            self._next = 0.0

    def begun(self, now: float) -> None:
        """A commit of all that was processed has begun."""
        self._next = now + self._interval_s
