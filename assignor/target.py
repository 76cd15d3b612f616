"""Who should own what: load per instance and worker, the measure of imbalance, and how many tasks should move where.

Load counts tasks of one kind (stateful or stateless) at the place where they will be once all planned moves are done. The
**imbalance** of a group is the sum over its instances of load squared over capacity. One task moved from instance a to b
lowers it exactly if (2 load(a) - 1) / capacity(a) > (2 load(b) + 1) / capacity(b); only such moves are planned, so
planning ends, and as the sum is convex, taking the best pair each time ends at its minimum: the tightest balance, which
gives every instance its share by capacity, rounded (the Webster method of apportionment).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from heapq import heapify, heappop, heappush, heapreplace
from itertools import repeat
from typing import Any, Generic, TypeVar

from assignor.model import TaskId
from assignor.roster import Instance, Roster, Worker

Place = TypeVar("Place", bound=Instance | Worker)
Key = tuple[float, ...]

_ROUNDING = 1e-9
"""Slack for the limits of the range, which are products of floats."""


def imbalance(loads_and_capacities: Iterable[tuple[int, int]]) -> float:
    """The measure that every planned move lowers: the sum of load squared over capacity."""
    return sum(load * load / capacity for load, capacity in loads_and_capacities)


class Loads:
    """Tasks of one kind for each instance and worker. `beside` (the other kind) only breaks ties."""

    def __init__(self, roster: Roster, destinations: Iterable[Worker]) -> None:
        self._roster = roster
        self.of_worker = [0] * len(roster.workers)
        self.of_instance = [0] * len(roster.instances)
        self.incoming = [0] * len(roster.instances)
        """Tasks that are on their way: learners spread the work of restoring."""
        self.beside: Loads | None = None
        self._workers_by_room: dict[int, Roomiest[Worker]] = {}
        for worker, count in Counter(destinations).items():
            self.of_worker[worker.rank] += count
            self.of_instance[worker.instance.rank] += count

    def add(self, worker: Worker, count: int = 1) -> None:
        """More tasks for a worker."""
        self.of_worker[worker.rank] += count
        self.of_instance[worker.instance.rank] += count

    def remove(self, worker: Worker) -> None:
        """One task less for a worker. Places ordered by room before this do not see it."""
        self.of_worker[worker.rank] -= 1
        self.of_instance[worker.instance.rank] -= 1

    def instance_room(self, instance: Instance) -> Key:
        """Lowest for the instance that one more task burdens least."""
        rank, capacity = instance.rank, instance.capacity
        beside = self.beside.of_instance[rank] if self.beside else 0
        return (2 * self.of_instance[rank] + 1) / capacity, self.incoming[rank] / capacity, beside / capacity, rank

    def gain(self, giver: Instance, getter: Instance) -> int:
        """Above 0 if one task of `giver` on `getter` would lower the imbalance, 0 if it would leave it as it is."""
        before = (2 * self.of_instance[giver.rank] - 1) * getter.capacity
        return before - (2 * self.of_instance[getter.rank] + 1) * giver.capacity

    def worker_room(self, worker: Worker) -> Key:
        """Lowest for the worker of an instance that has least to do."""
        rank = worker.rank
        return self.of_worker[rank], self.beside.of_worker[rank] if self.beside else 0, rank

    def roomiest(self, instances: Iterable[Instance]) -> Roomiest[Instance]:
        """Instances in the order of their room, which follows what is added."""
        return Roomiest(instances, self.instance_room, self.of_instance)

    def seats(self, count: int) -> Iterator[Instance]:
        """Where `count` tasks go one after the other, each to the instance with most room by then.

        The n-th task of an instance has the seat (2 n - 1) / capacity, and the seats are taken in ascending order. Below
        the level used here there are enough of them: at least (level * capacity - 1) / 2 for each instance.
        """
        receiving = self._roster.receiving
        level = (2 * (self.total() + count) + len(receiving)) / self._roster.capacity
        by_ties = sorted(receiving, key=lambda each: self.instance_room(each)[1:])
        seats: list[float] = []
        instances: list[Instance] = []
        for instance in by_ties:
            capacity, load = instance.capacity, self.of_instance[instance.rank]
            last = math.ceil((level * capacity - 1) / 2)
            seats += [(2 * taken + 1) / capacity for taken in range(load, last + 1)]
            instances += repeat(instance, max(0, last + 1 - load))
        return (instances[index] for index in sorted(range(len(seats)), key=seats.__getitem__)[:count])

    def roomiest_worker(self, instance: Instance) -> Worker:
        """The worker of an instance that has least to do."""
        if len(instance.workers) == 1:
            return instance.workers[0]
        room = self._workers_by_room.get(instance.rank)
        if room is None:
            room = self._workers_by_room[instance.rank] = Roomiest(instance.workers, self.worker_room, self.of_worker)
        return room.peek()

    def total(self) -> int:
        """Load of all instances that may receive tasks."""
        return sum(self.of_instance[each.rank] for each in self._roster.receiving)

    def bounds(self, total: int, percentage: float) -> dict[int, tuple[int, int]]:
        """For each capacity: lowest and highest load of an instance that is within the range, if there are `total` tasks.

        The range is the expected share +-`percentage` of it, and never tighter than rounding to whole tasks requires.
        """
        capacities = {each.capacity for each in self._roster.receiving}
        return {each: share_bounds(total * each, self._roster.capacity, percentage) for each in capacities}

    def out_of_range(self, percentage: float) -> bool:
        """Whether the load of some instance that may receive tasks is out of range."""
        bounds = self.bounds(self.total(), percentage)
        for each in self._roster.receiving:
            low, high = bounds[each.capacity]
            if not low <= self.of_instance[each.rank] <= high:
                return True
        return False

    def moves_to_balance(self, movable: Callable[[Instance], int]) -> tuple[Counter[int], Counter[int]]:
        """How many tasks each instance (by rank) should give and get for the tightest balance.

        `movable(instance)` limits what it can give. Changes nothing; the moves are the caller's to make.
        """
        loads = list(self.of_instance)
        giving: Counter[int] = Counter()
        getting: Counter[int] = Counter()
        receiving = self._roster.receiving
        room = [(self.instance_room(each), each.rank, each.capacity) for each in receiving]
        heavy = [(-(2 * loads[each.rank] - 1) / each.capacity, each.rank, each.capacity) for each in receiving]
        limits = {each.rank: movable(each) for each in receiving}
        heapify(room)
        heapify(heavy)
        while heavy:
            gain, giver, giver_capacity = heavy[0]
            if giving[giver] >= limits[giver]:
                heappop(heavy)
                continue
            key, getter, getter_capacity = room[0]
            if -gain <= key[0]:
                break
            giving[giver] += 1
            getting[getter] += 1
            loads[giver] -= 1
            loads[getter] += 1
            heapreplace(heavy, (-(2 * loads[giver] - 1) / giver_capacity, giver, giver_capacity))
            heapreplace(room, (((2 * loads[getter] + 1) / getter_capacity, *key[1:]), getter, getter_capacity))
        return +giving, getting


class Roomiest(Generic[Place]):
    """Places in the order of their room, while tasks are added to them.

    `loads` are the numbers, by rank, whose growth makes a place less roomy.
    """

    def __init__(self, places: Iterable[Place], key: Callable[[Place], Key], loads: list[int]) -> None:
        self._key = key
        self._loads = loads
        # Flat tuples of a key, which ends with the rank and so is never equal to another, then the load that it was
        # made from and the place: comparing nested ones takes twice the time.
        self._heap: list[tuple[Any, ...]] = [(*key(place), loads[place.rank], place) for place in places]
        heapify(self._heap)

    def peek(self) -> Place:
        """The place with most room. A place whose load has grown since is put back in order first."""
        heap, loads = self._heap, self._loads
        while True:
            entry = heap[0]
            place: Place = entry[-1]
            load = loads[place.rank]
            if load == entry[-2]:
                return place
            heapreplace(heap, (*self._key(place), load, place))

    def without(self, task: TaskId, held: Sequence[Set[TaskId]]) -> Place | None:
        """The place with most room among those that do not hold a task, given what each holds by rank."""
        place = self.peek()
        if task not in held[place.rank]:
            return place
        passed = [heappop(self._heap)]
        found = None
        while self._heap:
            place = self.peek()
            if task not in held[place.rank]:
                found = place
                break
            passed.append(heappop(self._heap))
        for entry in passed:
            heappush(self._heap, entry)
        return found


def heaviest_first(loads: Loads, tasks: Mapping[Worker, Iterable[TaskId]]) -> Iterator[TaskId]:
    """Tasks to give, each from the worker with most load at that moment, so that those left stay even."""
    left = {worker.rank: mixed(each)[::-1] for worker, each in tasks.items()}
    heap = [(-loads.of_worker[rank], rank) for rank, each in left.items() if each]
    heapify(heap)
    while heap:
        _, rank = heappop(heap)
        yield left[rank].pop()
        if left[rank]:
            heappush(heap, (-loads.of_worker[rank], rank))


def mixed(tasks: Iterable[TaskId]) -> list[TaskId]:
    """Tasks in an order in which any first part takes evenly from the subtopologies: most numerous ones first."""
    in_order = sorted(tasks)
    if not in_order or in_order[0].subtopology == in_order[-1].subtopology:
        return in_order
    by_subtopology: defaultdict[int, list[TaskId]] = defaultdict(list)
    for task in in_order:
        by_subtopology[task.subtopology].append(task)
    ordered = [(index - len(group), task) for group in by_subtopology.values() for index, task in enumerate(group)]
    return [task for _, task in sorted(ordered)]


def share_bounds(share_times_capacity: int, total_capacity: int, percentage: float) -> tuple[int, int]:
    """Whole numbers within +-percentage of a share, and at least the share rounded down and up."""
    share = share_times_capacity / total_capacity
    floor, remainder = divmod(share_times_capacity, total_capacity)
    low = min(floor, math.ceil(share * (1 - percentage) - _ROUNDING))
    high = max(floor + bool(remainder), math.floor(share * (1 + percentage) + _ROUNDING))
    return max(0, low), high
