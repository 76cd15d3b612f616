"""What `kstreams-worker group describe` makes of the broker's description of a group."""

from __future__ import annotations

from assignor.model import Assignment, AssignmentError, InstanceId, Subscription, TaskId, WorkerId
from kstreams_worker.group.events import GroupDescription, MemberDescription
from kstreams_worker.group.members import member_lines


def described(member_id: str, said: Subscription | None, given: Assignment | None) -> MemberDescription:
    return MemberDescription(member_id, f"client-{member_id}", "/10.0.0.1", "static-1", said, given)


SAID = Subscription(WorkerId(InstanceId(b"\1" * 16), 2), b"topology", 4, "host", leaving=True, leave_timeout_ms=5000)


def test_a_member_with_all_it_says_and_has() -> None:
    tasks = frozenset({TaskId(0, 0), TaskId(0, 1)})
    given = Assignment(
        active=tasks,
        being_learned=frozenset({TaskId(0, 0)}),
        standbys=frozenset({TaskId(1, 0)}),
        sources={0: ("orders",)},
        error=AssignmentError.MISSING_INPUT_TOPICS,
        error_text="waiting for topic orders",
    )
    [line] = member_lines(GroupDescription("app", "Stable", "stream", (described("m", SAID, given),)))
    assert (line.name, line.process_id, line.worker, line.capacity) == ("host/2", "01" * 16, 2, 4)
    assert (line.active, line.being_learned, line.learning, line.standby) == (2, 1, 0, 1)
    assert (line.is_leader, line.leaving, line.leave_timeout_ms) == (True, True, 5000)
    assert (line.host, line.group_instance_id, line.error) == ("10.0.0.1", "static-1", "waiting for topic orders")


def test_in_the_middle_of_a_round_members_are_known_by_their_clients() -> None:
    """The broker shows no metadata then."""
    group = GroupDescription("app", "PreparingRebalance", "stream", (described("m", None, None),))
    [line] = member_lines(group)
    assert (line.name, line.worker, line.metadata_version, line.active) == ("client-m", None, None, 0)
