"""New learners: for every task of a leaving member, and as many more as the tightest balance takes.

A learner restores a task's state on another instance while its owner goes on processing; existing learners were settled
before and stay. Destinations, in this order: newcomers with abundant room; instances that hold a copy of the task
already and stay within the balance range (the copy becomes the learner: nothing is restored twice); those with most room.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice

from assignor.holdings import Copy
from assignor.model import MoveCase, TaskId
from assignor.plan import Plan
from assignor.roster import Instance, Worker
from assignor.target import heaviest_first


def plan_learners(plan: Plan) -> None:
    """Find learners for tasks that must or should move to another instance."""
    if not plan.roster.receiving:
        return
    _plan_for_leaving(plan)
    if plan.stateful.out_of_range(plan.settings.imbalance_percentage):
        _plan_for_balance(plan)


def _plan_for_leaving(plan: Plan) -> None:
    stateful, contested = plan.holdings.stateful, plan.holdings.contested
    leaving = [
        task
        for task, owner in plan.owner.items()
        if not owner.instance.receives and task not in plan.learner and task in stateful and task not in contested
    ]
    if not leaving:
        return
    leaving.sort()
    loads = plan.stateful
    bounds = loads.bounds(loads.total() + len(leaving), plan.settings.imbalance_percentage)
    copies = plan.holdings.copies(leaving)
    room = loads.roomiest(plan.roster.receiving)
    newcomers = [each for each in plan.roster.receiving if each.newcomer]
    newcomers_room = loads.roomiest(newcomers) if newcomers else None
    for task in leaving:
        warm = copies.get(task, ())
        if newcomers_room is not None:
            newcomer = newcomers_room.peek()
            if loads.of_instance[newcomer.rank] < bounds[newcomer.capacity][0]:
                own = [copy for copy in warm if copy.instance is newcomer]
                _learn(plan, task, own[0] if own else newcomer, "its owner leaves; the learner's instance is new")
                continue
        fitting = [copy for copy in warm if loads.of_instance[copy.instance.rank] < bounds[copy.instance.capacity][1]]
        if fitting:
            best = min(fitting, key=lambda copy: (copy.staleness(), loads.instance_room(copy.instance)))
            _learn(plan, task, best, "its owner leaves; the learner had a copy")
        else:
            _learn(plan, task, room.peek(), "its owner leaves; the learner's instance has most room")


def _plan_for_balance(plan: Plan) -> None:
    loads = plan.stateful
    movable = _movable(plan)
    giving, getting = loads.moves_to_balance(lambda giver: sum(len(movable[worker]) for worker in giver.workers))
    instances = plan.roster.instances
    candidates = {
        rank: {worker: movable[worker] for worker in instances[rank].workers} for rank, count in giving.items() if count
    }
    every = [task for each in candidates.values() for tasks in each.values() for task in tasks]
    copies = plan.holdings.copies(every, at=getting)
    for rank, tasks_of in sorted(candidates.items()) if copies else ():
        warm = {worker: [task for task in tasks if task in copies] for worker, tasks in tasks_of.items()}
        for task in heaviest_first(loads, warm):
            if not giving[rank]:
                break
            fitting = [copy for copy in copies[task] if getting[copy.instance.rank]]
            if fitting:
                best = min(
                    fitting, key=lambda each: (each.staleness(), -getting[each.instance.rank], each.instance.rank)
                )
                giving[rank] -= 1
                getting[best.instance.rank] -= 1
                _relocate(plan, task, best, "for balance; the learner had a copy")
    takers = _takers(getting, instances)
    for rank, tasks_of in sorted(candidates.items()):
        cold = {worker: [task for task in tasks if task not in plan.learner] for worker, tasks in tasks_of.items()}
        for task in islice(heaviest_first(loads, cold), giving[rank]):
            _relocate(plan, task, next(takers), "for balance; the learner's instance has most room")


def _movable(plan: Plan) -> defaultdict[Worker, list[TaskId]]:
    """Stateful tasks that stay with a worker of an instance that receives, and are not being learned."""
    stateful, learned, contested = plan.holdings.stateful, plan.learner, plan.holdings.contested
    movable: defaultdict[Worker, list[TaskId]] = defaultdict(list)
    for task, owner in plan.owner.items():
        if task in stateful and task not in learned and task not in contested and owner.instance.receives:
            movable[owner].append(task)
    return movable


def _takers(getting: Counter[int], instances: list[Instance]) -> Iterator[Instance]:
    """Newcomers before others, then whoever is still to get most, one task at a time."""
    turns = [
        ((not instances[rank].newcomer, -left), rank) for rank, count in getting.items() for left in range(1, count + 1)
    ]
    return iter([instances[rank] for _, rank in sorted(turns)])


def _relocate(plan: Plan, task: TaskId, destination: Copy | Instance, reason: str) -> None:
    plan.stateful.remove(plan.owner[task])
    _learn(plan, task, destination, reason)


def _learn(plan: Plan, task: TaskId, destination: Copy | Instance, reason: str) -> None:
    if isinstance(destination, Copy):
        worker = destination.worker or plan.worker_on(destination.instance, task)
    else:
        worker = plan.worker_on(destination, task)
    plan.learner[task] = worker
    plan.stateful.add(worker)
    plan.stateful.incoming[worker.instance.rank] += 1
    if plan.case[task] is MoveCase.KEEP:
        plan.case[task] = MoveCase.LEARN
    plan.reason[task] = reason
