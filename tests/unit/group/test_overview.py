"""What `kstreams-worker tasks` makes of the broker's description of a group."""

from __future__ import annotations

from dataclasses import replace

from assignor.model import Assignment, CopyState, InstanceId, LagRecords, Subscription, TaskId, WorkerId
from kstreams_worker.group.events import GroupDescription, MemberDescription
from kstreams_worker.group.overview import TaskLine, overview

A, B = TaskId(0, 0), TaskId(0, 1)


def member(name: str, instance: int, said: Subscription | None, given: Assignment | None) -> MemberDescription:
    return MemberDescription(name, f"client-{name}", "/10.0.0.1", None, said, given)


def said(instance: int, index: int = 0, **copies: dict[TaskId, CopyState]) -> Subscription:
    return Subscription(
        WorkerId(InstanceId(bytes([instance] * 16)), index), bytes(8), name=f"host-{instance}", **copies
    )


GROUP = GroupDescription(
    "app",
    "Stable",
    "stream",
    (
        member(
            "m2",
            2,
            said(2, learners={B: CopyState(LagRecords(7), ready=False)}),
            Assignment(learners=frozenset({A, B})),
        ),
        member(
            "m1",
            1,
            said(1),
            Assignment(active=frozenset({A, B}), being_learned=frozenset({B}), sources={0: ("orders", "prices")}),
        ),
    ),
)


def test_tasks_stand_under_their_instance_and_worker() -> None:
    """Active tasks with the lag of their input, copies with what their worker said of them."""
    shown = overview(GROUP, {"0_0": 15, "0_1": 0})
    assert [instance.name for instance in shown.instances] == ["host-1", "host-2"]
    leader, learner = (instance.workers[0] for instance in shown.instances)
    assert leader.is_leader
    assert leader.tasks == (TaskLine(A, "active", "active", 15), TaskLine(B, "active", "being learned", 0))
    assert not learner.is_leader
    assert learner.tasks == (TaskLine(A, "learner", "new", None), TaskLine(B, "learner", "restoring", 7))


def test_the_lag_is_unknown_while_no_leader_has_told_the_topics() -> None:
    """In the first moments of a group nobody can say which topics a task reads."""
    lonely = GroupDescription("app", "Stable", "stream", (member("m", 1, said(1), Assignment(active=frozenset({A}))),))
    assert overview(lonely, {}).instances[0].workers[0].tasks[0].lag_records is None


def test_a_member_that_cannot_be_read_is_shown_apart() -> None:
    """Perhaps of a later version; it must not hide the others."""
    group = GroupDescription("app", "Stable", "stream", (*GROUP.members, member("m9", 9, None, None)))
    shown = overview(group, {})
    assert [instance.name for instance in shown.instances] == ["host-1", "host-2", "unreadable"]


def test_an_instance_that_is_restarted_with_more_workers_is_one_instance() -> None:
    """Its former workers, and their capacity, are in the group until they have left."""
    former, new = said(1, index=0), replace(said(1, index=1), capacity=2)
    group = GroupDescription(
        "app", "Stable", "stream", (member("m1", 1, former, Assignment()), member("m2", 1, new, Assignment()))
    )
    [instance] = overview(group, {}).instances
    assert (instance.capacity, [worker.index for worker in instance.workers]) == (2, [0, 1])
