"""From a round's result to the routing record: where each task can be queried."""

from __future__ import annotations

from collections import defaultdict

from assignor.model import GroupSnapshot, RoundResult, TaskId
from kstreams_worker.control.records import NOBODY, Routing, by_partition


def routing(snapshot: GroupSnapshot, result: RoundResult, generation: int) -> Routing | None:
    """Endpoints of each task's owner and standbys; None if no member has one."""
    endpoints = sorted({said.endpoint for said in snapshot.members.values() if said.endpoint is not None})
    if not endpoints:
        return None
    place = {endpoint: index for index, endpoint in enumerate(endpoints)}
    active = dict.fromkeys(snapshot.tasks, NOBODY)
    standbys: defaultdict[TaskId, list[int]] = defaultdict(list)
    for member, given in result.assignments.items():
        endpoint = snapshot.members[member].endpoint
        if endpoint is not None:
            active.update(dict.fromkeys(given.active, place[endpoint]))
            for task in given.standbys:
                standbys[task].append(place[endpoint])
    owners = by_partition(active, NOBODY)
    copied = {task.subtopology for task in standbys}
    return Routing(
        generation=generation,
        endpoints=tuple(endpoints),
        active=owners,
        standbys={
            subtopology: tuple(tuple(sorted(standbys[TaskId(subtopology, index)])) for index in range(len(places)))
            for subtopology, places in owners.items()
            if subtopology in copied
        },
    )
