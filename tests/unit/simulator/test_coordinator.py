"""The simulated broker begins rounds when Kafka's does, and not otherwise."""

from __future__ import annotations

import pytest

from kstreams_worker.simulator.clock import Clock
from kstreams_worker.simulator.coordinator import (
    GroupCoordinator,
    GroupState,
    JoinAnswer,
    Joined,
    Refusal,
    SyncAnswer,
)

SESSION_MS, REBALANCE_MS = 10_000, 60_000


class Member:
    """A process that answers nothing by itself."""

    def __init__(self, group: GroupCoordinator, static_id: str | None = None) -> None:
        self.group, self.static_id = group, static_id
        self.member_id = ""
        self.generation = -1
        self.leads = False
        self.answers: list[JoinAnswer | SyncAnswer] = []
        self.heartbeats: list[Refusal] = []
        self.lives = True

    def reachable(self) -> bool:
        return self.lives

    def until_heartbeat_ms(self) -> float:
        return 100

    def heartbeat_refused(self, refusal: Refusal) -> None:
        self.heartbeats.append(refusal)

    def join(self, metadata: bytes = b"same") -> None:
        self.group.join(self, self.member_id, self.static_id, metadata, self._joined)

    def _joined(self, answer: JoinAnswer) -> None:
        self.answers.append(answer)
        if isinstance(answer, Joined):
            self.member_id, self.generation = answer.member_id, answer.generation
            self.leads = answer.leader == answer.member_id

    def sync(self, assignments: dict[str, bytes] | None = None) -> None:
        self.group.sync(self.member_id, self.generation, assignments, self.answers.append)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def group(clock: Clock) -> GroupCoordinator:
    return GroupCoordinator(clock, SESSION_MS, REBALANCE_MS, initial_delay_ms=0)


def stable(group: GroupCoordinator, *members: Member) -> None:
    """Bring a group of these members to a stable generation; the first leads."""
    for member in members:
        member.join()
        for other in members[: members.index(member)]:
            other.join(b"again" + bytes([len(members), group.generation]))
    for member in members:
        member.sync({each.member_id: each.member_id.encode() for each in members} if member.leads else None)
    assert group.state is GroupState.STABLE


def test_a_follower_that_joins_again_unchanged_starts_no_round(group: GroupCoordinator) -> None:
    leader, follower = Member(group), Member(group)
    stable(group, leader, follower)
    follower.join(group.seats[follower.member_id].metadata)
    assert group.state is GroupState.STABLE
    assert follower.generation == group.generation
    follower.sync()
    assert follower.answers[-1] == follower.member_id.encode(), "its assignment, once more"


def test_changed_metadata_or_the_leader_starts_a_round(group: GroupCoordinator) -> None:
    leader, follower = Member(group), Member(group)
    stable(group, leader, follower)
    follower.join(b"changed")
    assert group.state is GroupState.PREPARING
    before = group.generation
    leader.join(group.seats[leader.member_id].metadata)
    assert group.generation == before + 1
    for member in (leader, follower):
        member.sync({} if member.leads else None)
    leader.join(group.seats[leader.member_id].metadata)
    assert group.state is GroupState.PREPARING


def test_members_hear_of_a_round_at_their_next_heartbeat(group: GroupCoordinator, clock: Clock) -> None:
    leader, follower = Member(group), Member(group)
    stable(group, leader, follower)
    follower.heartbeats.clear()
    Member(group).join()
    while clock.step(clock.now_ms + 99):
        pass
    assert follower.heartbeats == []
    while clock.step(clock.now_ms + 100):
        pass
    assert follower.heartbeats == [Refusal.REBALANCE_IN_PROGRESS]


def test_who_is_silent_for_a_session_is_out_and_a_round_begins(group: GroupCoordinator, clock: Clock) -> None:
    leader, dead = Member(group), Member(group)
    stable(group, leader, dead)
    dead.lives = False
    group.silent(dead, 400)
    while clock.step(SESSION_MS - 401):
        pass
    assert group.state is GroupState.STABLE
    while clock.step(SESSION_MS):
        pass
    assert not group.takes_commits_of(dead.member_id)
    assert group.state is GroupState.PREPARING


def test_a_leader_that_dies_in_mid_round_is_followed_by_another(group: GroupCoordinator, clock: Clock) -> None:
    leader, follower = Member(group), Member(group)
    stable(group, leader, follower)
    follower.join(b"changed")
    leader.join()
    follower.sync()
    leader.lives = False
    group.silent(leader, 0)
    while clock.step(SESSION_MS):
        pass
    assert follower.answers[-1] is Refusal.REBALANCE_IN_PROGRESS
    follower.join(b"changed")
    assert follower.leads


def test_a_static_member_that_bounces_gets_its_assignment_without_a_round(group: GroupCoordinator) -> None:
    leader, bounced = Member(group), Member(group, "static")
    stable(group, leader, bounced)
    generation, former = group.generation, bounced.member_id
    bounced.member_id = ""
    bounced.join(b"nothing")
    bounced.sync()
    assert (group.generation, group.state) == (generation, GroupState.STABLE)
    assert bounced.answers[-1] == former.encode()
    assert not group.takes_commits_of(former)


def test_who_does_not_join_within_the_rebalance_timeout_is_out(group: GroupCoordinator, clock: Clock) -> None:
    leader, slow = Member(group), Member(group)
    stable(group, leader, slow)
    leader.join()
    while clock.step(clock.now_ms + REBALANCE_MS):
        pass
    assert slow.heartbeats[-1] is Refusal.UNKNOWN_MEMBER_ID
    assert list(group.seats) == [leader.member_id]
