"""When a worker asks for a round: a learner is ready, or the leader wants one more. Pure but for the clock given.

The processing loop and the simulator ask by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from assignor.model import Assignment, TaskId
from kstreams_worker.tasks.plan import Step, TaskFacts, TaskStep
from kstreams_worker.tasks.states import Role, TaskState

RETRY_S = 5.0
"""A learner that said it is ready and was not given its task says so again after this long; a round that was put off is asked
for after this long in any case."""
SAME_ASKS_MAX = 3
"""How often in a row a leader may ask for one more round by the same assignment. It takes one or two; whatever it waits for
after that, rounds do not bring it, and a round takes milliseconds: there would be hundreds of them in a second."""


class Rejoining:
    """Owned by the processing loop. `clock` gives seconds that never go back.

    `partial`: each ready learner is worth a round; otherwise only all of them together are (`learner.partial.rebalance`).
    """

    def __init__(self, clock: Callable[[], float], *, partial: bool, retry_s: float = RETRY_S) -> None:
        self._clock = clock
        self._partial = partial
        self._retry_s = retry_s
        self._declared: frozenset[TaskId] = frozenset()
        self._declare_again_at = 0.0
        self._put_off: Assignment | None = None
        self._put_off_until = 0.0
        self._last_asked: Assignment | None = None
        self._same_asks = 0

    def to_declare(self, tasks: Mapping[TaskId, TaskFacts]) -> frozenset[TaskId]:
        """The ready learners, if they are worth a round now; they count as declared then. Empty: no round."""
        if self._declared and self._clock() >= self._declare_again_at:
            self._declared = frozenset()
        if not wants_rejoin(tasks, self._declared, partial=self._partial):
            return frozenset()
        self._declared = _ready_learners(tasks)
        self._declare_again_at = self._clock() + self._retry_s
        return self._declared

    def acted_on(
        self,
        assignment: Assignment,
        tasks: Mapping[TaskId, TaskFacts],
        steps: Iterable[TaskStep],
        said_ready: frozenset[TaskId],
    ) -> bool:
        """After the steps of an assignment were taken: whether to join again at once, as it asks.

        `said_ready` are the learners that the leader knew to be ready. One that became so after this worker had joined the
        round asked in vain: it asks again.
        """
        self._declared &= said_ready & frozenset(assignment.learners)
        self._same_asks = self._same_asks + 1 if assignment.rejoin and assignment == self._last_asked else 0
        self._last_asked = assignment
        is_vain = self._is_vain(tasks, assignment, steps)
        self._put_off = assignment if is_vain else None
        self._put_off_until = self._clock() + self._retry_s
        return assignment.rejoin and not is_vain

    def is_owed(self, tasks: Mapping[TaskId, TaskFacts]) -> bool:
        """Whether a round that was put off is to be asked for now. True once."""
        if self._put_off is None:
            return False
        if self._clock() < self._put_off_until and self._is_vain(tasks, self._put_off, ()):
            return False
        self._put_off = None
        return True

    def _is_vain(self, tasks: Mapping[TaskId, TaskFacts], assignment: Assignment, steps: Iterable[TaskStep]) -> bool:
        return self._same_asks >= SAME_ASKS_MAX or rejoin_is_vain(tasks, assignment, steps)

    def forget(self) -> None:
        """This worker has lost its tasks."""
        self._declared = frozenset()
        self._put_off = None


def wants_rejoin(tasks: Mapping[TaskId, TaskFacts], declared_ready: frozenset[TaskId], *, partial: bool) -> bool:
    """Whether newly ready learners are worth a round now: each one (partial), or only once all learners are ready."""
    ready = _ready_learners(tasks)
    if not ready - declared_ready:
        return False
    return partial or len(ready) == sum(facts.role is Role.LEARNER for facts in tasks.values())


def rejoin_is_vain(tasks: Mapping[TaskId, TaskFacts], assignment: Assignment, steps: Iterable[TaskStep]) -> bool:
    """Whether an assignment asks to join again, and doing so at once would change nothing, so that it asks without end.

    A task that is being learned and is still on its way to this worker cannot be suspended for its learner, however ready
    that is. Only what the assignment took away is worth a round meanwhile.
    """
    gave_up = any(step.step is Step.DEMOTE or (step.step is Step.CLOSE and step.role is Role.ACTIVE) for step in steps)
    return (
        assignment.rejoin
        and not gave_up
        and any(tasks[task].state is TaskState.FINISHING for task in assignment.being_learned if task in tasks)
    )


def _ready_learners(tasks: Mapping[TaskId, TaskFacts]) -> frozenset[TaskId]:
    return frozenset(
        task for task, facts in tasks.items() if facts.role is Role.LEARNER and facts.state is TaskState.READY
    )
