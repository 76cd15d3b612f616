"""What the members of a round hold, task by task: who runs it, who has it suspended, who learns it, who has a copy.

Everything later decides from this alone, together with the leader's memory where that helps: a leader without memory finds
the same facts here.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from functools import partial
from itertools import chain
from typing import NamedTuple

from assignor.model import CopyState, GroupSnapshot, LagRecords, TaskId, WorkerId
from assignor.roster import Instance, Roster, Worker


class Copy(NamedTuple):
    """A copy of a task's state that an instance holds. `worker` has it open; None: it only lies on the instance's disk."""

    state: CopyState
    instance: Instance
    worker: Worker | None

    def staleness(self) -> int:
        """Records missing, for choosing the freshest copy; copies that are ready count as equally fresh."""
        return 0 if self.state.ready else self.state.lag + 1


class Holdings:
    """The members' own statements, without contradictions.

    - `running`: processed by this worker right now. Where two claim the same task (one of them was cut off from the group
      for a while and does not know), the one that the leader remembers keeps it, else the one that stays, else the first.
    - `contested`: those of them that others run too, and who these others are: they are told to stop. Until they have, such
      a task is not moved, and nobody restores its state where one of them has it open.
    - `suspended`: committed and stopped by this worker; nobody runs it.
    - `blocked`: held by a member with another topology, which must stop first; nobody else has it.
    - `learners`: the best learner of the task on an instance that stays, and not on that of the task's owner.
    """

    def __init__(self, snapshot: GroupSnapshot, roster: Roster) -> None:
        self._roster = roster
        self._workers = roster.workers
        self.tasks = snapshot.tasks
        self.ordered = sorted(snapshot.tasks)
        """All tasks, ascending."""
        self.stateful: frozenset[TaskId] = frozenset(task for task, stateful in snapshot.tasks.items() if stateful)
        self._remembered = snapshot.memory.owners
        self.running, self.contested = self._settle_claims([(worker, worker.said.active) for worker in self._workers])
        suspended, _ = self._settle_claims([(worker, worker.said.suspended) for worker in self._workers])
        self.suspended = {task: worker for task, worker in suspended.items() if task not in self.running}
        self.holders = self.running | self.suspended
        """The worker that runs each task or has it suspended."""
        held = chain.from_iterable(chain(said.active, said.suspended) for said in roster.strangers.values())
        self.blocked = {
            task for task in held if task in self.tasks and task not in self.running and task not in self.suspended
        }
        self.learners = self._best_learners()
        self.opened = [self._opened(instance) for instance in roster.instances]
        """By rank of the instance: who of its workers has a task's state open. Empty for instances of one worker."""

    def copies(
        self, wanted: Collection[TaskId], *, at: Container[int] | None = None, standbys: bool = True
    ) -> dict[TaskId, list[Copy]]:
        """Copies of the wanted tasks on instances that may receive tasks: learners, standbys, state left on disk.

        `at` limits them to instances with these ranks; without `standbys` only learners and state on disk are found.
        """
        found: dict[TaskId, list[Copy]] = {}
        keys = set(wanted)
        for instance in self._roster.receiving:
            if at is not None and instance.rank not in at:
                continue
            on_disk: dict[TaskId, LagRecords] = {}
            for worker in instance.workers:
                said = worker.said
                for copies in (said.learners, said.standbys) if standbys else (said.learners,):
                    for task in copies.keys() & keys:
                        found.setdefault(task, []).append(Copy(copies[task], instance, worker))
                for task in said.dormant.keys() & keys:
                    on_disk[task] = min(said.dormant[task].lag, on_disk.get(task, said.dormant[task].lag))
            for worker in instance.workers if on_disk else ():
                for task in on_disk.keys() & (worker.said.learners.keys() | worker.said.standbys.keys()):
                    del on_disk[task]
            for task, lag in on_disk.items():
                # Nobody follows the changelog for it, so whatever it says of being ready is of the past.
                found.setdefault(task, []).append(Copy(CopyState(lag), instance, None))
        return found

    def _opened(self, instance: Instance) -> dict[TaskId, Worker]:
        opened: dict[TaskId, Worker] = {}
        if len(instance.workers) > 1:
            for worker in instance.workers:
                said = worker.said
                for tasks in (said.standbys, said.learners, said.suspended, said.active):
                    opened.update(dict.fromkeys(self.stateful.intersection(tasks), worker))
        return opened

    def _settle_claims(
        self, statements: list[tuple[Worker, frozenset[TaskId]]]
    ) -> tuple[dict[TaskId, Worker], dict[TaskId, list[Worker]]]:
        """Who of the claimants has each task, and for tasks with several who has to give it up."""
        claims: dict[TaskId, Worker] = {}
        for worker, tasks in statements:
            claims.update(dict.fromkeys(tasks, worker))
        losers: dict[TaskId, list[Worker]] = {}
        if len(claims) < sum(len(tasks) for _, tasks in statements):
            claimants: dict[TaskId, list[Worker]] = {}
            for worker, tasks in statements:
                for task in tasks:
                    claimants.setdefault(task, []).append(worker)
            for task, rivals in claimants.items():
                if len(rivals) > 1:
                    remembered = self._remembered.get(task)
                    claims[task], *losers[task] = sorted(rivals, key=partial(_right, remembered=remembered))
        for task in claims.keys() - self.tasks.keys():
            del claims[task]
            losers.pop(task, None)
        return claims, losers

    def _best_learners(self) -> dict[TaskId, Worker]:
        best: dict[TaskId, Worker] = {}
        for worker in self._workers:
            if not worker.instance.receives or not worker.said.learners:
                continue
            for task, state in worker.said.learners.items():
                if task not in self.stateful:
                    continue
                holder = self.holders.get(task)
                if holder is not None and holder.instance is worker.instance:
                    continue
                rival = best.get(task)
                if rival is None or _progress(state) > _progress(rival.said.learners[task]):
                    best[task] = worker
        return best


def _right(worker: Worker, *, remembered: WorkerId | None) -> tuple[bool, bool, int]:
    return worker.said.worker != remembered, not worker.instance.receives, worker.rank


def _progress(state: CopyState) -> tuple[bool, int]:
    return state.ready, -state.lag
