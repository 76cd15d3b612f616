"""Standbys: `num.standby.tasks` further copies of every stateful task, each on an instance of its own.

Copies stay where they are, as long as their instance neither runs nor learns the task. A learner counts as one of the
copies, so that a standby that became a learner is not replaced for the short time until its task moves there and leaves a
warm copy behind. New copies go to the previous owner of a task that moved (its state is warm), then to state left on
disk, then to where most room is.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, islice

from assignor.model import TaskId
from assignor.plan import Plan
from assignor.roster import Instance, Worker
from assignor.target import Loads


def plan_standbys(plan: Plan) -> None:
    """Place the standbys of all stateful tasks, once actives and learners are placed."""
    wanted = plan.settings.num_standby_tasks
    if wanted > 0 and plan.roster.receiving and plan.holdings.stateful:
        _Standbys(plan, wanted).place()


DEAL_BELOW_INSTANCES_PER_COPY = 8
"""Where a task needs a copy on more than one in so many instances, going through all of them in order is faster than
picking single ones (measured with 1 000 tasks on 100 instances)."""


class _Standbys:
    """One pass over all standbys of a round."""

    def __init__(self, plan: Plan, wanted: int) -> None:
        self._plan = plan
        self._wanted = wanted
        self._occupied: list[set[TaskId]] = [set() for _ in plan.roster.instances]
        """By rank of the instance: tasks that run, are learned, or stand by there."""
        self._copies: Counter[TaskId] = Counter()
        self._kept: list[set[TaskId]] = [set() for _ in plan.roster.workers]
        """By rank of the worker: the copies that it has after this round."""

    def place(self) -> None:
        self._occupy()
        self._keep()
        self._drop_excess()
        loads = Loads(self._plan.roster, ())
        for worker in self._plan.roster.workers:
            loads.add(worker, count=len(self._kept[worker.rank]))
        loads.beside = self._plan.stateful
        missing = self._missing()
        if missing:
            missing = self._add_warm(missing, loads)
            self._add_by_room(missing, loads)
        self._plan.standbys = self._kept

    def _occupy(self) -> None:
        plan, occupied = self._plan, self._occupied
        for owners in (plan.owner, plan.learner):
            for task, worker in owners.items():
                occupied[worker.instance.rank].add(task)
        for task, worker in plan.holdings.running.items():
            if task not in plan.owner:
                # Taken away in this round: it may come back to another worker of its instance.
                occupied[worker.instance.rank].add(task)
        for task, losers in plan.holdings.contested.items():
            for worker in losers:
                occupied[worker.instance.rank].add(task)

    def _keep(self) -> None:
        stateful = self._plan.holdings.stateful
        for worker in self._plan.roster.workers:
            if not worker.said.standbys or not worker.instance.receives:
                continue
            occupied = self._occupied[worker.instance.rank]
            kept = set(stateful.intersection(worker.said.standbys)) - occupied
            if kept:
                self._kept[worker.rank] = kept
                occupied |= kept
                self._copies.update(kept)

    def _drop_excess(self) -> None:
        """Of too many copies those furthest behind go first, then those of workers with most copies."""
        excess = [task for task, copies in self._copies.items() if copies > self._wanted]
        if not excess:
            return
        holders: dict[TaskId, list[Worker]] = {task: [] for task in excess}
        for worker in self._plan.roster.workers:
            for task in self._kept[worker.rank] & holders.keys():
                holders[task].append(worker)
        for task in sorted(excess):
            best_first = sorted(
                holders[task], key=lambda each: (each.said.standbys[task].lag, len(self._kept[each.rank]), each.rank)
            )
            for worker in best_first[self._wanted :]:
                self._kept[worker.rank].discard(task)
                self._occupied[worker.instance.rank].discard(task)
                self._copies[task] -= 1

    def _missing(self) -> dict[TaskId, int]:
        """How many copies each task still needs and can have: every copy takes an instance of its own.

        The tasks of one owner follow each other, so that their copies go to different instances one after the other: if
        the owner dies, many share its load.
        """
        plan, wanted, copies = self._plan, self._wanted, self._copies
        instances = len(plan.roster.receiving)
        missing: list[list[tuple[TaskId, int]]] = [[] for _ in range(len(plan.roster.instances) + 1)]
        stateful, learner = plan.holdings.stateful, plan.learner
        owner_of, holder_of = plan.owner.get, plan.holdings.holders.get
        for task in plan.holdings.ordered:
            if task not in stateful:
                continue
            has = copies.get(task, 0) + (task in learner)  # a Counter's own 0 costs a call
            if has < wanted:
                owner = owner_of(task) or holder_of(task)
                elsewhere = instances - has - (owner is not None and owner.instance.receives)
                if elsewhere > 0:
                    missing[owner.instance.rank if owner else -1].append((task, min(wanted - has, elsewhere)))
        return dict(chain.from_iterable(missing))

    def _add_warm(self, missing: dict[TaskId, int], loads: Loads) -> dict[TaskId, int]:
        """Use state that is on an instance already. Returns what is still missing."""
        copies = self._plan.holdings.copies(missing, standbys=False)
        owner_of, holder_of = self._plan.owner.get, self._plan.holdings.holders.get
        still: dict[TaskId, int] = {}
        for task, count in missing.items():
            previous = holder_of(task)
            left = count
            if previous is not None and previous is not owner_of(task) and previous.instance.receives:
                left -= self._add_if_free(task, previous.instance, previous, loads)
            if task in copies:
                for copy in sorted(copies[task], key=lambda each: (each.staleness(), each.instance.rank)):
                    if left:
                        left -= self._add_if_free(task, copy.instance, copy.worker, loads)
            if left:
                still[task] = left
        return still

    def _add_if_free(self, task: TaskId, instance: Instance, worker: Worker | None, loads: Loads) -> bool:
        if task in self._occupied[instance.rank]:
            return False
        self._add(task, worker or self._worker_on(instance, task, loads), loads)
        return True

    def _add_by_room(self, missing: dict[TaskId, int], loads: Loads) -> None:
        copies = sum(missing.values())
        if copies * DEAL_BELOW_INSTANCES_PER_COPY > len(missing) * len(self._plan.roster.receiving):
            self._deal(missing, loads)
        else:
            self._pick(missing, loads)

    def _pick(self, missing: dict[TaskId, int], loads: Loads) -> None:
        """Few copies among many instances: look only at those with most room."""
        room = loads.roomiest(self._plan.roster.receiving)
        for task, count in missing.items():
            for _ in range(count):
                instance = room.without(task, self._occupied)
                if instance is not None:
                    self._add(task, self._worker_on(instance, task, loads), loads)

    def _deal(self, missing: dict[TaskId, int], loads: Loads) -> None:
        """Copies of a task on a good part of all instances: go through all of them in order of their room."""
        by_room = sorted(self._plan.roster.receiving, key=loads.instance_room)
        ranks = [each.rank for each in by_room]
        capacity = {each.rank: each.capacity for each in by_room}
        load = {each: loads.of_instance[each] for each in ranks}
        room = {each: (2 * load[each] + 1) / capacity[each] for each in ranks}
        dealt: dict[int, list[TaskId]] = {each: [] for each in ranks}
        occupied = self._occupied
        for task, count in missing.items():
            order = sorted(ranks, key=room.__getitem__)
            for rank in islice((rank for rank in order if task not in occupied[rank]), count):
                load[rank] += 1
                room[rank] = (2 * load[rank] + 1) / capacity[rank]
                dealt[rank].append(task)
        for instance in by_room:
            for task in dealt[instance.rank]:
                self._add(task, self._worker_on(instance, task, loads), loads)

    def _worker_on(self, instance: Instance, task: TaskId, loads: Loads) -> Worker:
        if len(instance.workers) == 1:
            return instance.workers[0]
        return self._plan.holdings.opened[instance.rank].get(task) or loads.roomiest_worker(instance)

    def _add(self, task: TaskId, worker: Worker, loads: Loads) -> None:
        self._kept[worker.rank].add(task)
        self._occupied[worker.instance.rank].add(task)
        loads.add(worker)
