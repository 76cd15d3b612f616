"""The values that go into a round and come out of it.

A round's input is a `GroupSnapshot`: what each member said of itself when it joined (`Subscription`), the tasks of the
topology, the settings the leader runs with and what the leader remembers. Its output is a `RoundResult`. All of them
are frozen, so that an assignment is a value: computed twice from the same snapshot it is the same, whatever the order of
members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, NewType

MemberId = NewType("MemberId", str)
InstanceId = NewType("InstanceId", bytes)
"""The 16 bytes of an instance's process id (a UUID kept in its state directory); shared by the instance's workers."""
LagRecords = NewType("LagRecords", int)
"""Records between a copy of a task's state and the end of its changelogs."""

LATEST_VERSION = 4
"""The newest metadata version that this code writes and reads."""


class TaskId(NamedTuple):
    """One partition of one subtopology: the unit of work that is assigned. Written `0_3`, as in Kafka Streams."""

    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"


class WorkerId(NamedTuple):
    """A worker's identity that outlives its member id: the instance and the worker's index in it."""

    instance: InstanceId
    index: int  # type: ignore[assignment]  # hides tuple.index, which nothing here needs


class CopyState(NamedTuple):
    """What a member says of a copy of a task's state that it holds and does not process from.

    A tuple, as there are tens of thousands of them in a large group's round.
    """

    lag: LagRecords
    ready: bool = False
    """For a learner: restored past the end seen at its start and within the acceptable recovery lag."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member says of itself when it joins a round.

    `active` are the tasks that it keeps processing through the round; `suspended` are those it has committed and
    stopped because they are being learned or were revoked: only these may be handed to another member while this one
    lives. A suspended task has its state still open. A task that was taken away in a two-step move is closed, and listed
    no more (at most as `dormant`) when the member joins again.
    """

    worker: WorkerId
    topology: bytes
    """Fingerprint of the topology, 8 bytes: all members of a group run the same one."""
    capacity: int = 1
    """Capacity of the member's instance as a whole (default: its number of workers)."""
    name: str = ""
    """Host or pod name of the instance, for people."""
    endpoint: str | None = None
    """`host:port` under which the instance answers, if it does."""
    active: frozenset[TaskId] = frozenset()
    suspended: frozenset[TaskId] = frozenset()
    learners: Mapping[TaskId, CopyState] = field(default_factory=dict)
    standbys: Mapping[TaskId, CopyState] = field(default_factory=dict)
    dormant: Mapping[TaskId, CopyState] = field(default_factory=dict)
    """State left on the instance's disk that no worker of it has open."""
    leaving: bool = False
    leave_timeout_ms: int | None = None
    """How long the member is willing to wait for its tasks to be learned elsewhere; None: for ever."""
    upgrade_mode: str | None = None
    used_version: int = LATEST_VERSION
    latest_version: int = LATEST_VERSION

    @property
    def ready(self) -> frozenset[TaskId]:
        """What it learns and could take over now."""
        return frozenset(task for task, copy in self.learners.items() if copy.ready)


class AssignmentError(Enum):
    """Why a member gets no tasks. The number is its code on the wire."""

    NONE = 0
    MISSING_INPUT_TOPICS = 1
    """Recoverable: the leader starts a new round when the topics exist."""
    TOPOLOGY_MISMATCH = 2
    """Fatal for the member: it runs another topology than the leader."""
    INTERNAL_TOPIC_MISMATCH = 3
    """Fatal: an internal topic exists with another partition count or clean-up policy."""
    ASSIGNMENT_FAILED = 4
    """Fatal: the leader could not compute or publish an assignment."""


class MoveCase(Enum):
    """How each active task got to where it is after a round: every task ends in exactly one case."""

    START = "start"
    """Active nowhere: given out at once."""
    KEEP = "keep"
    """Stays with its owner."""
    GRANT = "grant"
    """A ready learner takes over from the suspended owner."""
    TAKE_OVER = "take_over"
    """Its owner is gone: given to whoever holds the best copy."""
    LEARN = "learn"
    """Stays with its owner while another member learns it."""
    REVOKE = "revoke"
    """Taken from its owner, first step of a two-step move: no owner until the next round."""
    HAND_ON = "hand_on"
    """Second step of a two-step move: given to its new owner."""
    FORCE = "force"
    """A leaving owner's patience ended: given to the best copy, ready or not."""
    WAIT = "wait"
    """No owner: nobody may take it now (all members leave, or one that runs another topology must stop first)."""


PLAIN_REASON = {
    MoveCase.KEEP: "stays with its owner",
    MoveCase.LEARN: "stays with its owner until its learner is ready",
}
"""What a decision says where there is nothing more to say."""


class Reason(NamedTuple):
    """Why some of a round's tasks ended as they did."""

    case: MoveCase
    text: str
    tasks: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader tells one member. A task that the member has and that is not named here is to be given up."""

    active: frozenset[TaskId] = frozenset()
    being_learned: frozenset[TaskId] = frozenset()
    """The part of `active` that some other member is learning: suspended at the start of the next round."""
    learners: frozenset[TaskId] = frozenset()
    standbys: frozenset[TaskId] = frozenset()
    rejoin: bool = False
    """Join again once the tasks that this assignment took away are committed and closed and all `being_learned` ones
    are suspended: a two-step move, or a learner that was ready before the task's owner was."""
    fence: frozenset[WorkerId] = frozenset()
    """Workers that are gone and whose tasks this member takes over: fence their transactions before starting."""
    error: AssignmentError = AssignmentError.NONE
    error_text: str = ""
    sources: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Source topics of each subtopology, told to the leader itself only: whoever describes the group finds them there."""
    reasons: tuple[Reason, ...] = ()
    """The round's reasons, told to the leader itself only: with what members said and were given they tell the round."""
    used_version: int = LATEST_VERSION
    latest_version: int = LATEST_VERSION


@dataclass(frozen=True, slots=True)
class AssignorSettings:
    """The settings of the leader that decide assignments."""

    num_standby_tasks: int = 0
    imbalance_percentage: float = 0.2
    """Fraction x: an instance's load should be within +-x of its expected share."""


@dataclass(frozen=True, slots=True)
class LeaderMemory:
    """What a leader keeps from one round to the next. Empty for a new leader, which must still be correct."""

    participants: Mapping[MemberId, WorkerId] = field(default_factory=dict)
    owners: Mapping[TaskId, WorkerId] = field(default_factory=dict)
    """Active owner of each task after the last round, to know whose transactions to fence."""
    leaving_deadlines_ms: Mapping[MemberId, int] = field(default_factory=dict)
    """Leaving members and when (leader's clock, ms) their patience ends."""


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """All that a round is computed from."""

    members: Mapping[MemberId, Subscription]
    tasks: Mapping[TaskId, bool]
    """Every task of the topology, and whether it is stateful."""
    settings: AssignorSettings = field(default_factory=AssignorSettings)
    memory: LeaderMemory = field(default_factory=LeaderMemory)
    now_ms: int = 0
    """The leader's clock, given as data; only compared with deadlines in `memory`."""
    topology: bytes = b""
    """Fingerprint of the topology that `tasks` was made from, the leader's own. Empty: that of most members."""


class Decision(NamedTuple):
    """One task's line in the explanation of a round. `previous` ran the task, or had it suspended, when it joined."""

    task: TaskId
    case: MoveCase
    owner: MemberId | None
    previous: MemberId | None
    learner: MemberId | None
    reason: str


@dataclass(frozen=True, slots=True)
class RoundResult:
    """A round's output: one assignment for each member, the reasons, and what the leader is to remember."""

    assignments: Mapping[MemberId, Assignment]
    decisions: tuple[Decision, ...]
    memory: LeaderMemory
