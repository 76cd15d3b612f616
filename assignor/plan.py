"""The round in the making: what the steps of an assignment hand to each other. Made and dropped within one `assign`."""

from __future__ import annotations

from assignor.holdings import Holdings
from assignor.model import GroupSnapshot, MoveCase, TaskId
from assignor.roster import Instance, Roster, Worker
from assignor.target import Loads


class Plan:
    """Where each task is after the round, and where it is heading.

    `owner` runs the task after the round; a task that is in no one's hands has none. `learner` restores it in order to
    take it over. `case` says for every task how it got there, `reason` says why where that is not plain.
    """

    def __init__(self, snapshot: GroupSnapshot, roster: Roster, holdings: Holdings) -> None:
        self.snapshot = snapshot
        self.settings = snapshot.settings
        self.roster = roster
        self.holdings = holdings
        self.present = roster.present()
        self.owner: dict[TaskId, Worker] = {}
        self.learner: dict[TaskId, Worker] = {}
        self.case: dict[TaskId, MoveCase] = {}
        self.reason: dict[TaskId, str] = {}
        self.standbys: list[set[TaskId]] = [set() for _ in roster.workers]
        """By rank of the worker."""
        self.rejoin: set[int] = set()
        """Ranks of workers that must join again at once."""
        self.stateful = Loads(roster, ())
        self.stateless = Loads(roster, ())

    def loads(self, stateful: bool) -> Loads:
        """The loads of the stateful or of the stateless tasks, once all planned moves are done."""
        return self.stateful if stateful else self.stateless

    def worker_on(self, instance: Instance, task: TaskId) -> Worker:
        """The worker of an instance for a task: the one that has its state open, which no other worker of the instance
        can open before that one has closed it; else the one with least to do."""
        if len(instance.workers) == 1:
            return instance.workers[0]
        opener = self.holdings.opened[instance.rank].get(task)
        return opener or self.loads(self.holdings.tasks[task]).roomiest_worker(instance)

    def give(self, task: TaskId, worker: Worker, case: MoveCase, reason: str = "") -> None:
        """The worker runs the task after this round."""
        self.owner[task] = worker
        self.case[task] = case
        if reason:
            self.reason[task] = reason

    def withhold(self, task: TaskId, case: MoveCase, reason: str) -> None:
        """Nobody runs the task after this round."""
        self.owner.pop(task, None)
        self.case[task] = case
        self.reason[task] = reason

    def take_away(self, task: TaskId, reason: str) -> None:
        """First step of a two-step move: its owner stops it, and joins again when that is done."""
        self.rejoin.add(self.owner[task].rank)
        self.withhold(task, MoveCase.REVOKE, reason)
