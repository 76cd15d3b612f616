"""Where standbys are, and that they stay there."""

from __future__ import annotations

from collections import Counter

from members import copies, given, said, snapshot, tasks

from assignor.assign import assign
from assignor.model import RoundResult, TaskId


def places(result: RoundResult) -> dict[TaskId, set[str]]:
    found: dict[TaskId, set[str]] = {}
    for member, each in result.assignments.items():
        for task in each.standbys:
            found.setdefault(task, set()).add(member)
    return found


def test_copies_are_spread_and_never_where_the_task_runs() -> None:
    """Two further copies of each task on three instances: each on both others, all equally loaded."""
    members = {name: said(name) for name in "ABC"}
    result = assign(snapshot(members, tasks(*range(6)), standbys=2))
    assert {len(each.standbys) for each in result.assignments.values()} == {4}
    assert all(not each.standbys & each.active for each in result.assignments.values())


def test_a_dead_owners_load_would_be_shared() -> None:
    """The copies of one owner's four tasks lie on three instances at least."""
    members = {name: said(name) for name in "ABCDE"}
    result = assign(snapshot(members, tasks(*range(20)), standbys=1))
    where = places(result)
    for owner in members:
        holders = Counter(next(iter(where[task])) for task in given(result, owner).active)
        assert max(holders.values()) <= 2


def test_copies_follow_capacity() -> None:
    """Twice the capacity, twice the copies."""
    members = {"A": said("A", capacity=2), "B": said("B"), "C": said("C"), "D": said("D", active=tasks(*range(12)))}
    result = assign(snapshot(members, tasks(*range(12)), standbys=1, imbalance=9.0))
    assert {name: len(given(result, name).standbys) for name in "ABC"} == {"A": 6, "B": 3, "C": 3}


def test_as_many_copies_as_instances_allow() -> None:
    """More copies wanted than there are instances: one each, and none beside the active."""
    members = {"A": said("A"), "B0": said("B", 0, capacity=2), "B1": said("B", 1, capacity=2)}
    result = assign(snapshot(members, tasks(0, 1, 2), standbys=5))
    assert all(len(holders) == 1 for holders in places(result).values())


def test_copies_stay_even_where_others_have_more_room() -> None:
    """A newcomer gets no copies that exist elsewhere already."""
    members = {"A": said("A", active=tasks(0)), "B": said("B", standbys=copies({0: 3})), "C": said("C")}
    assert given(assign(snapshot(members, tasks(0), standbys=1)), "B").standbys == tasks(0)


def test_of_too_many_copies_those_furthest_behind_go() -> None:
    """The setting was lowered."""
    members = {
        "A": said("A", active=tasks(0)),
        "B": said("B", standbys=copies({0: 300})),
        "C": said("C", standbys=copies({0: 3})),
        "D": said("D", standbys=copies({0: 30})),
    }
    assert places(assign(snapshot(members, tasks(0), standbys=2))) == {TaskId(0, 0): {"C", "D"}}
    assert places(assign(snapshot(members, tasks(0), standbys=0))) == {}


def test_the_previous_owner_keeps_a_warm_copy() -> None:
    """After a learner took over, though an idle instance has more room."""
    members = {
        "A": said("A", active=tasks(1), suspended=tasks(0), standbys=copies({2: 0})),
        "B": said("B", learners=copies({0: 0}, ready=True), standbys=copies({1: 0})),
        "C": said("C", active=tasks(2)),
    }
    result = assign(snapshot(members, tasks(0, 1, 2), standbys=1))
    assert given(result, "B").active == tasks(0)
    assert not given(result, "C").standbys
    assert TaskId(0, 0) in given(result, "A").standbys


def test_a_leaving_owner_keeps_no_copy() -> None:
    """Its warm state goes with it."""
    members = {
        "A": said("A", suspended=tasks(0), leaving=True),
        "B": said("B", learners=copies({0: 0}, ready=True)),
        "C": said("C"),
    }
    assert places(assign(snapshot(members, tasks(0), standbys=1))) == {TaskId(0, 0): {"C"}}


def test_state_on_disk_becomes_the_standby() -> None:
    """The freshest first, before instances that would restore from nothing."""
    members = {
        "A": said("A", active=tasks(0)),
        "B": said("B"),
        "C": said("C", dormant=copies({0: 50})),
        "D": said("D", dormant=copies({0: 40})),
    }
    assert places(assign(snapshot(members, tasks(0), standbys=1))) == {TaskId(0, 0): {"D"}}


def test_a_standby_that_became_a_learner_is_not_replaced() -> None:
    """Its task moves to it soon and leaves a warm copy behind: a copy from nothing in between would be wasted."""
    members = {
        "A": said("A", active=tasks(0, 1)),
        "B": said("B", standbys=copies({0: 1, 1: 1})),
        "C": said("C", active=tasks(2, 3)),
        "D": said("D", standbys=copies({2: 1, 3: 1})),
    }
    result = assign(snapshot(members, tasks(*range(4)), standbys=1))
    learned = given(result, "B").learners | given(result, "D").learners
    assert len(learned) == 2
    assert not places(result).keys() & learned


def test_a_fresh_learner_takes_no_standby_away() -> None:
    """Until it is ready the standby is the only other copy."""
    members = {
        "A": said("A", active=tasks(1), suspended=tasks(0)),
        "B": said("B", standbys=copies({0: 1, 1: 1})),
        "C": said("C", learners=copies({0: 999})),
    }
    assert given(assign(snapshot(members, tasks(0, 1), standbys=1)), "B").standbys == tasks(0, 1)


def test_no_copy_where_the_task_was_taken_away_a_moment_ago() -> None:
    """In the gap of a two-step move it comes back to another worker of its instance."""
    members = {
        "A0": said("A", 0, capacity=2, active=tasks(0, 1)),
        "A1": said("A", 1, capacity=2),
        "B": said("B", capacity=1, active=tasks(2)),
    }
    result = assign(snapshot(members, tasks(0, 1, 2), standbys=1))
    gap = tasks(0, 1) - given(result, "A0").active
    assert len(gap) == 1
    assert gap <= given(result, "B").standbys


def test_two_workers_of_an_instance_do_not_both_stand_by() -> None:
    """They share one disk."""
    members = {
        "A": said("A", active=tasks(0)),
        "B0": said("B", 0, standbys=copies({0: 1})),
        "B1": said("B", 1, standbys=copies({0: 1})),
    }
    result = assign(snapshot(members, tasks(0), standbys=2))
    assert len(given(result, "B0").standbys | given(result, "B1").standbys) == 1
    assert not given(result, "B1").standbys


def test_workers_of_an_instance_share_its_copies() -> None:
    """Evenly."""
    members = {"A": said("A", active=tasks(*range(8)))} | {f"B{index}": said("B", index) for index in range(4)}
    result = assign(snapshot(members, tasks(*range(8)), standbys=1, imbalance=9.0))
    assert {len(given(result, f"B{index}").standbys) for index in range(4)} == {2}
