"""What `kstreams-worker explain` makes of the broker's description of a group."""

from __future__ import annotations

from assignor.model import (
    Assignment,
    CopyState,
    InstanceId,
    LagRecords,
    MoveCase,
    Reason,
    Subscription,
    TaskId,
    WorkerId,
)
from kstreams_worker.group.events import GroupDescription, MemberDescription
from kstreams_worker.group.last_round import last_round

TASK = TaskId(0, 3)


def said(instance: int, **fields: object) -> Subscription:
    return Subscription(WorkerId(InstanceId(bytes([instance] * 16)), 0), bytes(8), name=f"host-{instance}", **fields)


OWNER = MemberDescription(
    "m1",
    "client-1",
    "/10.0.0.1",
    None,
    said(1, suspended=frozenset({TASK})),
    Assignment(
        active=frozenset({TASK}),
        being_learned=frozenset({TASK}),
        sources={0: ("orders",)},
        reasons=(Reason(MoveCase.LEARN, "for balance", frozenset({TASK})),),
    ),
)
LEARNER = MemberDescription(
    "m2",
    "client-2",
    "/10.0.0.2",
    None,
    said(2, learners={TASK: CopyState(LagRecords(70))}),
    Assignment(learners=frozenset({TASK})),
)


def test_who_learns_what_and_how_far_it_is() -> None:
    """Names, the leader's reason, and the lag that the learner told."""
    told = last_round(GroupDescription("app", "Stable", "stream", (OWNER, LEARNER)))
    [decision] = told.result.decisions
    assert decision == (TASK, MoveCase.LEARN, "m1", "m1", "m2", "for balance")
    assert (told.leader, told.names["m2"], told.lags, told.unreadable) == ("host-1/0", "host-2/0", {TASK: 70}, ())


def test_a_member_that_cannot_be_read_is_named() -> None:
    """The round is told without it."""
    stranger = MemberDescription("m9", "client-9", "/10.0.0.9", None, None, None)
    told = last_round(GroupDescription("app", "Stable", "stream", (stranger, OWNER, LEARNER)))
    assert told.unreadable == ("m9",)
    assert len(told.result.decisions) == 1
