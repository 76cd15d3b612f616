"""New learners: for every task of a leaving member, and as many more as the tightest balance takes.

A learner restores a task's state on another instance while its owner goes on processing; existing learners were settled
before and stay. Destinations, in this order: newcomers with abundant room; instances that hold a copy of the task
already and stay within the balance range (the copy becomes the learner: nothing is restored twice); those with most room.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from assignor.holdings import Copy
from assignor.model import MoveCase, TaskId
from assignor.plan import Plan
from assignor.roster import Instance, Worker
from assignor.target import Roomiest


def plan_learners(plan: Plan) -> None:
    """Find learners for tasks that must or should move to another instance."""
    if not plan.roster.receiving:
        return
    _plan_for_leaving(plan)
    if plan.stateful.out_of_range(plan.settings.imbalance_percentage):
        _plan_for_balance(plan)


def _plan_for_leaving(plan: Plan) -> None:
    stateful = plan.holdings.stateful
    leaving = [
        task
        for task, owner in plan.owner.items()
        if not owner.instance.receives and task not in plan.learner and task in stateful
    ]
    if not leaving:
        return
    leaving.sort()
    loads = plan.stateful
    bounds = loads.bounds(loads.total() + len(leaving), plan.settings.imbalance_percentage)
    copies = plan.holdings.copies(leaving)
    room = Roomiest(plan.roster.receiving, loads.instance_room)
    newcomers = [each for each in plan.roster.receiving if each.newcomer]
    newcomers_room = Roomiest(newcomers, loads.instance_room) if newcomers else None
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
            _learn(plan, task, best, f"its owner leaves; the learner had a copy, {best.state.lag} records behind")
        else:
            _learn(plan, task, room.peek(), "its owner leaves; the learner's instance has most room")


def _plan_for_balance(plan: Plan) -> None:
    loads = plan.stateful
    movable = _movable(plan)
    giving, getting = loads.moves_to_balance(lambda instance: len(movable[instance.rank]))
    if not giving:
        return
    candidates = [task for rank in giving for task in movable[rank]]
    copies = plan.holdings.copies(candidates)
    instances = plan.roster.instances
    moved: set[TaskId] = set()
    for rank in sorted(giving):
        for task in sorted(movable[rank] & copies.keys()):
            if not giving[rank]:
                break
            fitting = [copy for copy in copies[task] if getting[copy.instance.rank]]
            if fitting:
                best = min(
                    fitting, key=lambda copy: (copy.staleness(), -getting[copy.instance.rank], copy.instance.rank)
                )
                giving[rank] -= 1
                getting[best.instance.rank] -= 1
                moved.add(task)
                _relocate(plan, task, best, f"for balance; the learner had a copy, {best.state.lag} records behind")
    takers = _takers(getting, instances)
    for rank in sorted(+giving):
        for task in mixed(movable[rank] - moved)[: giving[rank]]:
            _relocate(plan, task, next(takers), "for balance; the learner's instance has most room")


def _movable(plan: Plan) -> defaultdict[int, set[TaskId]]:
    """By instance: stateful tasks that stay on an instance that receives, and are not being learned."""
    movable: defaultdict[int, set[TaskId]] = defaultdict(set)
    by_worker: defaultdict[Worker, list[TaskId]] = defaultdict(list)
    for task, owner in plan.owner.items():
        by_worker[owner].append(task)
    for owner, tasks in by_worker.items():
        if owner.instance.receives:
            movable[owner.instance.rank] |= plan.holdings.stateful.intersection(tasks) - plan.learner.keys()
    return movable


def _takers(getting: Counter[int], instances: list[Instance]) -> Iterator[Instance]:
    """Newcomers before others, then whoever is still to get most, one task at a time."""
    turns = [
        ((not instances[rank].newcomer, -left), rank) for rank, count in getting.items() for left in range(1, count + 1)
    ]
    return iter([instances[rank] for _, rank in sorted(turns)])


def mixed(tasks: Iterable[TaskId]) -> list[TaskId]:
    """Tasks in an order in which any first part takes evenly from the subtopologies: most numerous ones first."""
    by_subtopology: defaultdict[int, list[TaskId]] = defaultdict(list)
    for task in sorted(tasks):
        by_subtopology[task.subtopology].append(task)
    ordered = [(index - len(group), task) for group in by_subtopology.values() for index, task in enumerate(group)]
    return [task for _, task in sorted(ordered)]


def _relocate(plan: Plan, task: TaskId, destination: Copy | Instance, reason: str) -> None:
    plan.stateful.remove(plan.owner[task])
    _learn(plan, task, destination, reason)


def _learn(plan: Plan, task: TaskId, destination: Copy | Instance, reason: str) -> None:
    if isinstance(destination, Copy):
        worker = destination.worker or plan.stateful.roomiest_worker(destination.instance)
    else:
        worker = plan.stateful.roomiest_worker(destination)
    plan.learner[task] = worker
    plan.stateful.add(worker, incoming=True)
    if plan.case[task] is MoveCase.KEEP:
        plan.case[task] = MoveCase.LEARN
    plan.reason[task] = reason
