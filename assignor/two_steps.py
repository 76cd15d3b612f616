"""Moves without a learner, in two rounds: the first takes the task from its owner, the second hands it on.

For stateless tasks between instances, and for all tasks between the workers of one instance, whose state lies on the same
disk. The second step needs no memory of the first: by then the task is in nobody's hands, and goes to where most room is.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import islice

from assignor.model import MoveCase, TaskId
from assignor.plan import Plan
from assignor.roster import Instance, Worker
from assignor.target import heaviest_first, mixed


def plan_two_steps(plan: Plan) -> None:
    """Take away what must change hands without being learned."""
    if not plan.roster.receiving:
        return
    _between_instances(plan)
    shared = [instance for instance in plan.roster.receiving if len(instance.workers) > 1]
    if shared:
        for stateful in (True, False):
            _within_instances(plan, shared, stateful)


def _between_instances(plan: Plan) -> None:
    loads = plan.stateless
    if not loads.out_of_range(plan.settings.imbalance_percentage):
        return
    settled = _settled(plan, stateful=False)
    giving, _ = loads.moves_to_balance(lambda instance: sum(len(settled[worker]) for worker in instance.workers))
    for rank, count in sorted(giving.items()):
        settled_here = {worker: settled[worker] for worker in plan.roster.instances[rank].workers}
        for task in islice(heaviest_first(loads, settled_here), count):
            _take_away(plan, task, "for balance between instances")


def _within_instances(plan: Plan, shared: list[Instance], stateful: bool) -> None:
    loads = plan.loads(stateful)
    surplus = {
        worker: count
        for instance in shared
        for worker, count in _surplus([(loads.of_worker[each.rank], each) for each in instance.workers])
    }
    if not surplus:
        return
    settled = _settled(plan, stateful)
    just_given = _just_given(plan, stateful)
    for worker, count in surplus.items():
        tasks = mixed(settled[worker])[:count]
        for task in tasks:
            _take_away(plan, task, "for balance between the workers of an instance")
        if len(tasks) < count and worker in just_given:
            # What it was given in this round it must first start; the next round takes it away again.
            plan.rejoin.add(worker.rank)


def _surplus(loads: list[tuple[int, Worker]]) -> list[tuple[Worker, int]]:
    """How many tasks workers have above an even share. The rounded-up shares go to those that have most."""
    share, larger_shares = divmod(sum(load for load, _ in loads), len(loads))
    heaviest_first = sorted(loads, key=lambda entry: (-entry[0], entry[1].rank))
    above = [
        (worker, load - share - (1 if index < larger_shares else 0))
        for index, (load, worker) in enumerate(heaviest_first)
    ]
    return [(worker, count) for worker, count in above if count > 0]


def _settled(plan: Plan, stateful: bool) -> defaultdict[Worker, set[TaskId]]:
    """By worker: tasks of one kind that it ran before this round and keeps, and that nobody learns."""
    settled: defaultdict[Worker, set[TaskId]] = defaultdict(set)
    for task, owner in plan.owner.items():
        if (
            plan.case[task] is MoveCase.KEEP
            and plan.holdings.tasks[task] is stateful
            and task in plan.holdings.running
            and owner.instance.receives
        ):
            settled[owner].add(task)
    return settled


def _just_given(plan: Plan, stateful: bool) -> set[Worker]:
    """Workers that were given tasks in this round that a next one can take away again."""
    return {
        owner
        for task, owner in plan.owner.items()
        if task not in plan.holdings.running and task not in plan.learner and plan.holdings.tasks[task] is stateful
    }


def _take_away(plan: Plan, task: TaskId, reason: str) -> None:
    plan.loads(plan.holdings.tasks[task]).remove(plan.owner[task])
    plan.take_away(task, reason)
