"""Who takes part in a round: workers and their instances, which of them may receive tasks, and who runs another topology.

Members come in any order and with random ids, so everything is ranked here once: instances by name and id, workers by
their index in the instance. All later choices break ties by these ranks, which makes a round's result a function of the
snapshot alone.
"""

from __future__ import annotations

from collections import defaultdict

from assignor.model import GroupSnapshot, InstanceId, MemberId, Subscription, WorkerId


class Worker:
    """One member that runs the group's topology. Compared by identity; owned by its `Roster`."""

    __slots__ = ("expired", "instance", "member", "rank", "said")

    def __init__(self, member: MemberId, said: Subscription, instance: Instance, rank: int, expired: bool) -> None:
        self.member = member
        self.said = said
        self.instance = instance
        self.rank = rank
        self.expired = expired
        """It leaves, and its patience has ended."""


class Instance:
    """The workers of one process id, with the capacity that they share."""

    __slots__ = ("capacity", "identity", "newcomer", "rank", "receives", "workers")

    def __init__(self, identity: InstanceId, rank: int, capacity: int, receives: bool, newcomer: bool) -> None:
        self.identity = identity
        self.rank = rank
        self.capacity = capacity
        self.receives = receives
        """May be given tasks: none of its workers leaves (an order to leave is for whole instances)."""
        self.newcomer = newcomer
        self.workers: list[Worker] = []


class Roster:
    """The members of a round in their fixed order."""

    def __init__(self, snapshot: GroupSnapshot) -> None:
        self.topology = group_topology(snapshot)
        """Fingerprint of the topology that the group runs."""
        self.outvoted = bool(snapshot.topology) and snapshot.topology != self.topology
        """The leader itself runs another topology than the group, so it knows neither its tasks nor how to move them."""
        self.strangers: dict[MemberId, Subscription] = {}
        """Members that run another topology."""
        self.workers: list[Worker] = []
        self.instances: list[Instance] = []
        self._enlist(snapshot)
        self.receiving = [instance for instance in self.instances if instance.receives]
        self.capacity = sum(instance.capacity for instance in self.receiving)

    def _enlist(self, snapshot: GroupSnapshot) -> None:
        families: defaultdict[InstanceId, list[tuple[int, MemberId, Subscription]]] = defaultdict(list)
        for member, said in snapshot.members.items():
            if said.topology == self.topology:
                families[said.worker.instance].append((said.worker.index, member, said))
            else:
                self.strangers[member] = said
        memory = snapshot.memory
        known = {worker.instance for worker in memory.participants.values()}
        deadlines_ms = memory.leaving_deadlines_ms
        for family in families.values():
            family.sort(key=_index_and_member)
        for identity in sorted(families, key=lambda each: (families[each][0][2].name, each)):
            family = families[identity]
            instance = Instance(
                identity=identity,
                rank=len(self.instances),
                capacity=max(1, *(said.capacity for _, _, said in family)),
                receives=not any(said.leaving for _, _, said in family),
                newcomer=identity not in known if known else not any(_holds(said) for _, _, said in family),
            )
            self.instances.append(instance)
            for _, member, said in family:
                deadline_ms = deadlines_ms.get(member) if said.leaving else None
                expired = deadline_ms is not None and deadline_ms <= snapshot.now_ms
                worker = Worker(member, said, instance, len(self.workers), expired)
                self.workers.append(worker)
                instance.workers.append(worker)

    def present(self) -> set[WorkerId]:
        """Identities of all members of the round, whichever topology they run."""
        return {worker.said.worker for worker in self.workers} | {said.worker for said in self.strangers.values()}


def group_topology(snapshot: GroupSnapshot) -> bytes:
    """The topology that the group runs: the one that most processing members have, so that a newcomer with another one
    (a faulty or a too early deployment) is refused rather than a running group stopped; then the most common; then the
    leader's own."""
    processing: defaultdict[bytes, int] = defaultdict(int)
    present: defaultdict[bytes, int] = defaultdict(int)
    for said in snapshot.members.values():
        present[said.topology] += 1
        processing[said.topology] += bool(said.active or said.suspended)
    if len(present) == 1:
        return next(iter(present))
    return max(
        present,
        key=lambda each: (processing[each], present[each], each == snapshot.topology, each),
        default=snapshot.topology,
    )


def _index_and_member(entry: tuple[int, MemberId, Subscription]) -> tuple[int, MemberId]:
    return entry[:2]


def _holds(said: Subscription) -> bool:
    return bool(said.active or said.suspended or said.learners or said.standbys)
