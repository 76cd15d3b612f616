"""The members of a live group, one line each, as an operator asks for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from assignor.explain import member_names
from assignor.model import AssignmentError, MemberId
from kstreams_worker.group.events import GroupDescription, MemberDescription


@dataclass(frozen=True, slots=True)
class MemberLine:
    """One member. What comes from its metadata is empty or None if that cannot be read, or while a round is on."""

    name: str
    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None
    process_id: str
    worker: int | None
    capacity: int | None
    endpoint: str | None
    topology: str
    metadata_version: int | None
    latest_version: int | None
    is_leader: bool
    leaving: bool
    leave_timeout_ms: int | None
    active: int
    being_learned: int
    learning: int
    standby: int
    error: str


def member_lines(group: GroupDescription) -> tuple[MemberLine, ...]:
    """The members in the order of their names."""
    names = {str(member): name for member, name in _names(group.members).items()}
    return tuple(sorted((_line(each, names.get(each.member_id, each.client_id)) for each in group.members), key=_order))


def _names(members: Iterable[MemberDescription]) -> dict[MemberId, str]:
    return member_names({MemberId(each.member_id): each.subscription for each in members if each.subscription})


def _order(line: MemberLine) -> tuple[str, str]:
    return line.name, line.member_id


def _line(member: MemberDescription, name: str) -> MemberLine:
    said, given = member.subscription, member.assignment
    return MemberLine(
        name=name,
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host.lstrip("/"),
        group_instance_id=member.group_instance_id,
        process_id=said.worker.instance.hex() if said else "",
        worker=said.worker.index if said else None,
        capacity=said.capacity if said else None,
        endpoint=said.endpoint if said else None,
        topology=said.topology.hex() if said else "",
        metadata_version=said.used_version if said else None,
        latest_version=said.latest_version if said else None,
        is_leader=bool(given and given.sources),
        leaving=bool(said and said.leaving),
        leave_timeout_ms=said.leave_timeout_ms if said else None,
        active=len(given.active) if given else 0,
        being_learned=len(given.being_learned) if given else 0,
        learning=len(given.learners) if given else 0,
        standby=len(given.standbys) if given else 0,
        error=given.error_text if given and given.error is not AssignmentError.NONE else "",
    )
