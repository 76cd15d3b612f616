"""The leader's work in a round: decode what the members say, see to the internal topics, assign, encode, remember.

Runs on the I/O thread of the member that leads, between JoinGroup's answer and SyncGroup. It is bounded: the assignor is
pure and fast, and each call to the brokers has a deadline.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import structlog

from assignor.assign import assign
from assignor.model import (
    Assignment,
    AssignmentError,
    AssignorSettings,
    GroupSnapshot,
    LeaderMemory,
    MemberId,
    MoveCase,
    RoundResult,
    Subscription,
    TaskId,
)
from assignor.recount import reasons
from assignor.wire import MetadataError, decode_subscription, encode_assignment
from kstreams_worker.control.records import Memory, Record
from kstreams_worker.control.routes import routing

log = structlog.get_logger(__name__)

DEADLINE_GRACE_MS = 500
"""A member whose patience has ended leaves by itself; after this long the leader starts the round for one that has not."""


class TopicsMissing(Exception):
    """Input topics do not exist; `str` names them."""


class TopicsUnsuitable(Exception):
    """A topic exists but does not fit; `str` says which and what to do."""


class TaskSource(Protocol):
    """Who knows the tasks of the topology. `tasks` creates internal topics that are missing.

    Raises TopicsMissing, TopicsUnsuitable, BrokerError.
    """

    def tasks(self) -> Mapping[TaskId, bool]: ...
    def sources(self) -> Mapping[int, tuple[str, ...]]: ...


class Leader:
    """Keeps the leader's memory from round to round. Every member has one; it is asked only while its member leads."""

    def __init__(
        self,
        settings: AssignorSettings,
        source: TaskSource,
        topology: bytes,
        clock_ms: Callable[[], int] = lambda: int(time.time() * 1000),
        recall: Callable[[], Memory | None] = lambda: None,
    ) -> None:
        """`recall` gives the newest memory that any leader has published."""
        self._settings = settings
        self._source = source
        self._topology = topology
        self._clock_ms = clock_ms
        self._recall = recall
        self._memory = LeaderMemory()
        self._generation = -1
        self._assigned_ms = 0
        self.last_snapshot: GroupSnapshot | None = None
        """What the last round was computed from."""
        self.last_round: RoundResult | None = None

    def assign(self, leader_id: str, members: Mapping[str, bytes], generation: int) -> dict[str, bytes]:
        """One assignment for each member. Raises BrokerError when topics cannot be looked at: the round is to be retried."""
        self._assigned_ms = self._clock_ms()
        with _garbage_left():
            said = {MemberId(member): _decode(member, metadata) for member, metadata in members.items()}
        known = {member: subscription for member, subscription in said.items() if subscription is not None}
        try:
            tasks = self._source.tasks()
        except TopicsMissing as missing:
            return self._refuse(members, known, AssignmentError.MISSING_INPUT_TOPICS, str(missing))
        except TopicsUnsuitable as unsuitable:
            return self._refuse(members, known, AssignmentError.INTERNAL_TOPIC_MISMATCH, str(unsuitable))
        recalled = self._recall()
        if recalled is not None and recalled.generation > self._generation:
            self._memory = recalled.recalled()
        snapshot = GroupSnapshot(known, tasks, self._settings, self._memory, self._assigned_ms, self._topology)
        with _garbage_left():
            result = assign(snapshot)
            assignments = self._encoded(leader_id, members, result)
        self._memory = result.memory
        self._generation = generation
        self.last_snapshot = snapshot
        self.last_round = result
        moves = Counter(decision.case.value for decision in result.decisions if decision.case is not MoveCase.KEEP)
        log.info("round assigned", generation=generation, members=len(members), tasks=len(tasks), **moves)
        return assignments

    def _encoded(self, leader_id: str, members: Iterable[str], result: RoundResult) -> dict[str, bytes]:
        """What each member is told. The leader's own assignment also tells whoever describes the group about the round."""
        unreadable = Assignment(
            error=AssignmentError.ASSIGNMENT_FAILED,
            error_text="the leader cannot read this member's metadata: all members of a group must run compatible versions",
        )
        assignments = {member: result.assignments.get(MemberId(member), unreadable) for member in members}
        assignments[leader_id] = replace(
            assignments[leader_id], sources=self._source.sources(), reasons=reasons(result.decisions)
        )
        return {member: encode_assignment(assignment) for member, assignment in assignments.items()}

    def to_publish(self, generation: int) -> list[Record]:
        """What the others should know of the round that made this generation: the memory, and the routing if there is any."""
        if self._generation != generation or self.last_snapshot is None or self.last_round is None:
            return []
        routes = routing(self.last_snapshot, self.last_round, generation)
        return [Memory.of(self._memory, generation), *([] if routes is None else [routes])]

    def patience_has_ended(self) -> bool:
        """Whether a leaving member has stayed past its deadline, and no round has dealt with that yet."""
        overdue_ms = self._clock_ms() - DEADLINE_GRACE_MS
        return any(self._assigned_ms < at_ms <= overdue_ms for at_ms in self._memory.leaving_deadlines_ms.values())

    def _refuse(
        self,
        members: Mapping[str, bytes],
        known: Mapping[MemberId, Subscription],
        error: AssignmentError,
        text: str,
    ) -> dict[str, bytes]:
        """Nobody gets anything new. Who has tasks keeps them: a topic that cannot be seen just now stops no processing."""
        assignments = {}
        for member in members:
            said = known.get(MemberId(member))
            if said is None:
                kept = Assignment(error=error, error_text=text)
            else:
                kept = Assignment(
                    active=said.active | said.suspended,
                    learners=frozenset(said.learners),
                    standbys=frozenset(said.standbys),
                    error=error,
                    error_text=text,
                )
            assignments[member] = encode_assignment(kept)
        return assignments


@contextmanager
def _garbage_left() -> Iterator[None]:
    """Look for no garbage meanwhile. A round makes many objects and drops few, so looking takes up to a third of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _decode(member: str, metadata: bytes) -> Subscription | None:
    try:
        said = decode_subscription(metadata)
    except MetadataError as error:
        log.warning("unreadable metadata", member=member, error=str(error))
        return None
    return said if isinstance(said, Subscription) else None
