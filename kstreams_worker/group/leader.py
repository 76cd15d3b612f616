"""The leader's work in a round: decode what the members say, see to the internal topics, assign, encode, remember.

Runs on the I/O thread of the member that leads, between JoinGroup's answer and SyncGroup. It is bounded: the assignor is
pure and fast, and each call to the brokers has a deadline.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
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
from assignor.wire import MetadataError, decode_subscription, encode_assignment

log = structlog.get_logger(__name__)


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
    ) -> None:
        self._settings = settings
        self._source = source
        self._topology = topology
        self._clock_ms = clock_ms
        self._memory = LeaderMemory()
        self.last_round: RoundResult | None = None

    def assign(self, leader_id: str, members: Mapping[str, bytes], generation: int) -> dict[str, bytes]:
        """One assignment for each member. Raises BrokerError when topics cannot be looked at: the round is to be retried."""
        said = {MemberId(member): _decode(member, metadata) for member, metadata in members.items()}
        known = {member: subscription for member, subscription in said.items() if subscription is not None}
        try:
            tasks = self._source.tasks()
        except TopicsMissing as missing:
            return self._refuse(members, known, AssignmentError.MISSING_INPUT_TOPICS, str(missing))
        except TopicsUnsuitable as unsuitable:
            return self._refuse(members, known, AssignmentError.INTERNAL_TOPIC_MISMATCH, str(unsuitable))
        snapshot = GroupSnapshot(known, tasks, self._settings, self._memory, self._clock_ms(), self._topology)
        result = assign(snapshot)
        self._memory = result.memory
        self.last_round = result
        moves = Counter(decision.case.value for decision in result.decisions if decision.case is not MoveCase.KEEP)
        log.info("round assigned", generation=generation, members=len(members), tasks=len(tasks), **moves)
        unreadable = Assignment(
            error=AssignmentError.ASSIGNMENT_FAILED,
            error_text="the leader cannot read this member's metadata: all members of a group must run compatible versions",
        )
        assignments = {member: result.assignments.get(MemberId(member), unreadable) for member in members}
        assignments[leader_id] = replace(assignments[leader_id], sources=self._source.sources())
        return {member: encode_assignment(assignment) for member, assignment in assignments.items()}

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


def _decode(member: str, metadata: bytes) -> Subscription | None:
    try:
        said = decode_subscription(metadata)
    except MetadataError as error:
        log.warning("unreadable metadata", member=member, error=str(error))
        return None
    return said if isinstance(said, Subscription) else None
