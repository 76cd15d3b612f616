"""A worker that was told to leave for good: by whom, until when it waits, and when it may go. Pure but for the clock given.

It goes on processing until a round leaves it without active tasks, which is when others have learned them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from assignor.model import Assignment

PAUSE_S = 1.0
"""How long a worker stays after its last task was handed over. Its leaving begins a round, which would hold up the first commit
of whoever took over."""


class LeaveCause(Enum):
    """Who wants this worker to leave."""

    ORDER = "order"
    """An order on the control topic. It can be taken back."""
    SIGNAL = "signal"
    """SIGTERM, with on.sigterm=handover."""


@dataclass(frozen=True, slots=True)
class ToldToLeave:
    """`timeout_ms` is the time to wait for others to learn this worker's tasks; None: as long as it takes."""

    cause: LeaveCause
    timeout_ms: int | None


@dataclass(frozen=True, slots=True)
class OrderTakenBack:
    """There is no order any more, if there was one."""


LeaveEvent = ToldToLeave | OrderTakenBack


class Verdict(Enum):
    """What a round means to a worker that leaves."""

    STAY = "stay"
    DONE = "done"
    """Nothing is left to hand over."""
    NOBODY = "nobody"
    """There are tasks that nobody learns: no other instance may take them."""


class Leaving:
    """Owned by the processing loop. `clock` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._deadlines: dict[LeaveCause, float | None] = {}
        self._verdict = Verdict.STAY
        self._go_at: float | None = None

    def __bool__(self) -> bool:
        return bool(self._deadlines)

    @property
    def cause(self) -> LeaveCause | None:
        """Why it leaves. A signal weighs more than an order: it cannot be taken back."""
        return LeaveCause.SIGNAL if LeaveCause.SIGNAL in self._deadlines else next(iter(self._deadlines), None)

    @property
    def ordered(self) -> bool:
        return LeaveCause.ORDER in self._deadlines

    def tell(self, told: ToldToLeave) -> None:
        """Leave, for this cause too."""
        self._deadlines[told.cause] = None if told.timeout_ms is None else self._clock() + told.timeout_ms / 1000

    def take_back(self) -> bool:
        """Drop the order; whether there was one."""
        was_ordered = self._deadlines.pop(LeaveCause.ORDER, self) is not self
        if was_ordered:
            self._remember(Verdict.STAY)
        return was_ordered

    def remaining_ms(self) -> int | None:
        """How much longer to wait; None: as long as it takes, or it does not leave."""
        deadlines = [deadline for deadline in self._deadlines.values() if deadline is not None]
        return max(0, int((min(deadlines) - self._clock()) * 1000)) if deadlines else None

    def judge(self, assignment: Assignment, *, said_leaving: bool) -> Verdict:
        """What a round means. `said_leaving`: the leader knew that this worker leaves."""
        if not self or not said_leaving:
            verdict = Verdict.STAY
        elif not assignment.active:
            verdict = Verdict.DONE
        else:
            verdict = Verdict.NOBODY if assignment.active - assignment.being_learned else Verdict.STAY
        self._remember(verdict)
        return verdict

    def _remember(self, verdict: Verdict) -> None:
        self._verdict = verdict
        if verdict is not Verdict.DONE:
            self._go_at = None
        elif self._go_at is None:
            self._go_at = self._clock() + PAUSE_S

    def reason_to_go(self) -> str | None:
        """Why to leave now, for people; None: not yet, or not at all."""
        if not self:
            return None
        is_overdue = self.remaining_ms() == 0
        if self._go_at is not None:
            return "all tasks are handed over" if is_overdue or self._clock() >= self._go_at else None
        if self._verdict is Verdict.NOBODY and self.cause is LeaveCause.SIGNAL:
            return "no other instance may take the tasks"
        return "others had the time they were given to learn the tasks" if is_overdue else None
