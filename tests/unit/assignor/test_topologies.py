"""Members that run another topology: refused, and their tasks held until they have stopped."""

from __future__ import annotations

from members import copies, given, said, snapshot, tasks, worker

from assignor.assign import assign
from assignor.model import AssignmentError, LeaderMemory, MoveCase, TaskId

OTHER = b"another."


def test_a_newcomer_with_another_topology_is_refused() -> None:
    """A faulty deployment: the group goes on, and the newcomer learns which topologies do not match."""
    members = {"a": said("A", active=tasks(0, 1)), "b": said("B", topology=OTHER)}
    result = assign(snapshot(members, tasks(0, 1), topology=b"topology"))
    assert given(result, "b").error is AssignmentError.TOPOLOGY_MISMATCH
    assert OTHER.hex() in given(result, "b").error_text
    assert b"topology".hex() in given(result, "b").error_text
    assert given(result, "a").active == tasks(0, 1)
    assert given(result, "a").being_learned == frozenset()


def test_those_that_process_outvote_any_number_of_idle_ones() -> None:
    """Half of the pods come up with the new version at once: what runs is not stopped by them."""
    members = {"a": said("A", active=tasks(0))} | {f"n{index}": said(f"N{index}", topology=OTHER) for index in range(5)}
    result = assign(snapshot(members, tasks(0), topology=b"topology"))
    assert given(result, "a").error is AssignmentError.NONE
    assert {given(result, f"n{index}").error for index in range(5)} == {AssignmentError.TOPOLOGY_MISMATCH}


def test_tasks_of_a_refused_member_wait_until_it_has_stopped() -> None:
    """It may still run them: they are given out once it is gone, and its transactions are fenced."""
    members = {
        "a": said("A", active=tasks(0)),
        "b": said("B", active=tasks(1)),
        "c": said("C", topology=OTHER, active=tasks(2)),
    }
    memory = LeaderMemory(owners={TaskId(0, 2): worker("C")})
    first = assign(snapshot(members, tasks(0, 1, 2), memory=memory))
    assert [decision.case for decision in first.decisions] == [MoveCase.KEEP, MoveCase.KEEP, MoveCase.WAIT]
    del members["c"]
    second = assign(snapshot(members, tasks(0, 1, 2), memory=first.memory))
    assert [decision.case for decision in second.decisions] == [MoveCase.KEEP, MoveCase.KEEP, MoveCase.TAKE_OVER]
    assert {worker("C")} in (given(second, "a").fence, given(second, "b").fence)


def test_a_leader_with_another_topology_refuses_itself_only() -> None:
    """It does not know the group's tasks, so it changes nothing; the next leader does."""
    members = {
        "a": said("A", active=tasks(0), suspended=tasks(1)),
        "b": said("B", active=tasks(2), learners=copies({1: 4}), standbys=copies({0: 1})),
        "leader": said("L", topology=OTHER),
    }
    memory = LeaderMemory(owners={TaskId(0, 0): worker("A")})
    result = assign(snapshot(members, tasks(7, 8, 9), topology=OTHER, memory=memory))
    assert given(result, "leader").error is AssignmentError.TOPOLOGY_MISMATCH
    assert given(result, "a").active == tasks(0, 1)
    assert given(result, "a").being_learned == tasks(1)
    assert given(result, "b").active == tasks(2)
    assert given(result, "b").learners == tasks(1)
    assert given(result, "b").standbys == tasks(0)
    assert result.memory == memory
    assert result.decisions == ()


def test_of_two_idle_topologies_the_leaders_wins() -> None:
    """Nobody processes anything yet: the leader's own is as good as any, and it can assign."""
    members = {"a": said("A"), "b": said("B", topology=OTHER)}
    for topology, refused in ((b"topology", "b"), (OTHER, "a")):
        result = assign(snapshot(members, tasks(0), topology=topology))
        assert given(result, refused).error is AssignmentError.TOPOLOGY_MISMATCH
        assert len(result.decisions) == 1
