"""Which instances are to leave, and how far they are. Pure: made of what the broker knows of the group."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kstreams_worker.errors import UsageError
from kstreams_worker.group.overview import GroupOverview, InstanceLine

ID_PREFIX_MIN = 8
"""Characters of a process id that are enough to name an instance; tables show so many."""
_SHARE = re.compile(r"(?P<number>\d+)(?P<percent>%?)")


@dataclass(frozen=True, slots=True)
class Departure:
    """How far an instance is with leaving."""

    process_id: str
    name: str
    told: bool
    """Its workers say that they leave."""
    gone: bool
    tasks_left: int
    """Active tasks that it still runs."""
    learners: int
    """Learners of these, ..."""
    learners_ready: int
    learners_lag_records: int | None
    """... and how far they were behind, all together, when the last round began; None: not known yet."""


def label(name: str, process_id: str) -> str:
    """How to call an instance in front of people."""
    return f"{name} ({process_id[:ID_PREFIX_MIN]})"


def answers_to(given: str, name: str, process_id: str, addresses: Collection[str]) -> bool:
    """Whether somebody who gives this name means the instance of that name, process id, and addresses."""
    return given == name or given in addresses or (len(given) >= ID_PREFIX_MIN and process_id.startswith(given.lower()))


def addresses(instance: InstanceLine) -> tuple[str, ...]:
    """Those of an instance's workers, as the brokers see them."""
    return tuple(sorted({worker.client_host for worker in instance.workers}))


def by_names(instances: Sequence[InstanceLine], names: Collection[str]) -> list[InstanceLine]:
    """The instances of these names: host, pod, address, or process id (its first characters do). A host's name means all
    instances on it. Raises UsageError for a name that no instance has."""
    chosen: dict[str, InstanceLine] = {}
    for name in names:
        found = [
            instance
            for instance in instances
            if answers_to(name, instance.name, instance.process_id, addresses(instance))
        ]
        if not found:
            known = ", ".join(label(instance.name, instance.process_id) for instance in instances) or "none"
            raise UsageError(f"no instance of the group is called {name!r}; there are: {known}")
        chosen.update((instance.process_id, instance) for instance in found)
    return list(chosen.values())


def by_share(instances: Sequence[InstanceLine], share: str, leaving: Collection[str]) -> list[InstanceLine]:
    """The instances that are to leave so that a share of them stays: `80%`, or a number of instances.

    Those that leave already (`leaving`, process ids) count as gone. The next are those with fewest active tasks, and the
    leader last. What stays is rounded up. Raises UsageError for a share that leaves nobody or that changes nothing.
    """
    match = _SHARE.fullmatch(share.strip())
    if match is None:
        raise UsageError(f"--to {share!r} is neither a percentage, such as 80%, nor a number of instances")
    number = int(match["number"])
    stay = -(-len(instances) * number // 100) if match["percent"] else number
    if stay < 1:
        raise UsageError(f"--to {share} of {len(instances)} instances would leave nobody")
    candidates = [instance for instance in instances if instance.process_id not in leaving]
    count = len(candidates) - stay
    if count < 1:
        raise UsageError(
            f"--to {share} of {len(instances)} instances is {stay}, and {len(candidates)} are there to stay: none would leave"
        )
    return sorted(candidates, key=_cost_of_leaving)[:count]


def check_somebody_stays(
    instances: Iterable[InstanceLine], chosen: Collection[InstanceLine], leaving: Collection[str]
) -> None:
    """Raises UsageError when all that would be left is instances that leave already, or nothing."""
    going = {instance.process_id for instance in chosen} | set(leaving)
    if all(instance.process_id in going for instance in instances):
        raise UsageError("this would leave nobody: start other instances first, or stop the last ones with SIGTERM")


def said_leaving(instances: Iterable[InstanceLine]) -> set[str]:
    """Process ids of the instances that say that they leave."""
    return {instance.process_id for instance in instances if any(worker.leaving for worker in instance.workers)}


def progress(group: GroupOverview, process_id: str, name: str) -> Departure:
    """How far one instance is."""
    found = [instance for instance in group.instances if instance.process_id == process_id]
    workers = [worker for instance in found for worker in instance.workers]
    tasks = {line.task for worker in workers for line in worker.tasks if line.role == "active"}
    copies = [
        line
        for instance in group.instances
        for worker in instance.workers
        for line in worker.tasks
        if line.role == "learner" and line.task in tasks
    ]
    known = [copy.lag_records for copy in copies if copy.lag_records is not None]
    return Departure(
        process_id=process_id,
        name=name,
        told=bool(workers) and all(worker.leaving for worker in workers),
        gone=not workers,
        tasks_left=len(tasks),
        learners=len(copies),
        learners_ready=sum(copy.state == "ready" for copy in copies),
        learners_lag_records=sum(known) if known else None,
    )


def _cost_of_leaving(instance: InstanceLine) -> tuple[bool, int, str, str]:
    leads = any(worker.is_leader for worker in instance.workers)
    active = sum(line.role == "active" for worker in instance.workers for line in worker.tasks)
    return leads, active, instance.name, instance.process_id
