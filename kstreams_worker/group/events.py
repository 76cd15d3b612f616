"""What the group plane tells the worker's loop, and what it learns from the group."""

from __future__ import annotations

from dataclasses import dataclass

from assignor.model import Assignment, Subscription, TaskId


@dataclass(frozen=True, slots=True)
class GroupGeneration:
    """A membership: which generation of the group, as which member. Offsets are committed with it."""

    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class PrepareRound:
    """A round begins. The loop commits and suspends what it is to, then answers `prepared`.

    After `deadline` (monotonic seconds) the member has joined without it.
    """

    deadline: float
    tasks: frozenset[TaskId]
    """What is being learned here and may move in this round."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """A round ended with this assignment."""

    generation: GroupGeneration
    assignment: Assignment
    is_leader: bool
    round_s: float
    """From the moment this member learned of the round to its assignment."""
    said_ready: frozenset[TaskId] = frozenset()
    """The learners that this member called ready when it joined the round; what became ready later, nobody knows yet."""
    said_leaving: bool = False
    """It joined the round as a member that leaves."""


@dataclass(frozen=True, slots=True)
class MembershipLost:
    """The group goes on without this member: drop all tasks without committing, then answer `dropped`."""

    reason: str


@dataclass(frozen=True, slots=True)
class GroupFailed:
    """Membership is impossible; the worker ends with this error."""

    error: Exception


GroupEvent = PrepareRound | Assigned | MembershipLost | GroupFailed


class OffsetsUnstable(Exception):
    """A transaction with offsets of the asked partitions is still open: ask again."""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member of a live group, as the broker describes it."""

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None
    subscription: Subscription | None
    assignment: Assignment | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A live group, as the broker describes it. `state` is the broker's word (Stable, PreparingRebalance, Empty, Dead...)."""

    group_id: str
    state: str
    protocol_type: str
    members: tuple[MemberDescription, ...]
