"""The member's life as one table: `{state: {event: next state}}`. An event that a state does not list is illegal."""

from __future__ import annotations

from enum import Enum, auto

from kstreams_worker.machine import Machine, Table


class MemberState(Enum):
    """Where a worker stands with its group."""

    UNJOINED = auto()
    """Not a member: has not joined yet, or was declared dead and has dropped its tasks."""
    PREPARING = auto()
    """A round begins: the loop commits and suspends the tasks that are being learned."""
    JOINING = auto()
    """JoinGroup is sent; the tasks that were not suspended go on."""
    SETTLING = auto()
    """The members are known, the assignment is not: the broker refuses offset commits."""
    STABLE = auto()
    """Has an assignment."""
    LEFT = auto()
    """Has left for good."""


class MemberEvent(Enum):
    """What happens to a member."""

    ROUND = auto()
    PREPARED = auto()
    JOINED = auto()
    ASSIGNED = auto()
    RETRY = auto()
    LOST = auto()
    LEAVE = auto()


_S, _E = MemberState, MemberEvent

MEMBER_TABLE: Table[MemberState, MemberEvent] = {
    _S.UNJOINED: {_E.ROUND: _S.PREPARING, _E.LOST: _S.UNJOINED, _E.LEAVE: _S.LEFT},
    _S.PREPARING: {_E.PREPARED: _S.JOINING, _E.LOST: _S.UNJOINED, _E.LEAVE: _S.LEFT},
    _S.JOINING: {_E.JOINED: _S.SETTLING, _E.RETRY: _S.JOINING, _E.LOST: _S.UNJOINED, _E.LEAVE: _S.LEFT},
    _S.SETTLING: {_E.ASSIGNED: _S.STABLE, _E.RETRY: _S.JOINING, _E.LOST: _S.UNJOINED, _E.LEAVE: _S.LEFT},
    _S.STABLE: {_E.ROUND: _S.PREPARING, _E.LOST: _S.UNJOINED, _E.LEAVE: _S.LEFT},
    _S.LEFT: {},
}


def member_machine() -> Machine[MemberState, MemberEvent]:
    """A member that has not joined yet."""
    return Machine("member", MEMBER_TABLE, MemberState.UNJOINED)
