"""Members that contradict each other, and tasks in nobody's hands: who gets them."""

from __future__ import annotations

import pytest
from members import copies, given, said, snapshot, tasks, worker

from assignor.assign import assign
from assignor.model import LeaderMemory, MoveCase, TaskId

T0 = TaskId(0, 0)


def owner(members: dict, **fields: object) -> str | None:
    """Who gets the only task."""
    result = assign(snapshot(members, tasks(0), **fields))
    assert len(result.decisions) == 1
    return result.decisions[0].owner


def test_of_two_that_run_a_task_the_remembered_one_keeps_it() -> None:
    """A worker that was cut off for a while still believes that it runs its old tasks: it is told to give them up."""
    members = {"a": said("A", active=tasks(0)), "b": said("B", active=tasks(0))}
    for name in ("A", "B"):
        result = assign(snapshot(members, tasks(0), memory=LeaderMemory(owners={T0: worker(name)})))
        assert given(result, name.lower()).active == tasks(0)
        loser = given(result, "a" if name == "B" else "b")
        assert loser.active == frozenset()
        assert loser.rejoin


def test_a_contested_task_is_left_alone_until_it_is_closed() -> None:
    """No learner and no standby where somebody still has its state open; the round after puts that right."""
    members = {"a": said("A", active=tasks(0), leaving=True), "b": said("B", active=tasks(0))}
    memory = LeaderMemory(owners={T0: worker("A")})
    first = assign(snapshot(members, tasks(0), standbys=1, memory=memory))
    assert given(first, "a").active == tasks(0)
    assert not given(first, "b").learners | given(first, "b").standbys
    members["b"] = said("B", dormant=copies({0: 5}))
    second = assign(snapshot(members, tasks(0), standbys=1, memory=first.memory))
    assert given(second, "b").learners == tasks(0)


def test_of_two_that_run_a_task_the_one_that_stays_keeps_it() -> None:
    """Without memory the one that is not leaving; among equals always the same one."""
    assert owner({"a": said("A", active=tasks(0), leaving=True), "b": said("B", active=tasks(0))}) == "b"
    assert owner({"b": said("B", active=tasks(0)), "a": said("A", active=tasks(0))}) == "a"


def test_of_two_that_have_it_suspended_the_remembered_one_resumes() -> None:
    """The other missed the round in which the task left it, so its state is of the past."""
    members = {"a": said("A", suspended=tasks(0)), "b": said("B", suspended=tasks(0))}
    for name in ("A", "B"):
        assert owner(members, memory=LeaderMemory(owners={T0: worker(name)})) == name.lower()


def test_one_that_runs_it_beats_one_that_has_it_suspended() -> None:
    """A running task is never given to anyone else in the same round."""
    members = {"a": said("A", suspended=tasks(0)), "b": said("B", active=tasks(0))}
    assert owner(members, memory=LeaderMemory(owners={T0: worker("A")})) == "b"


@pytest.mark.parametrize(
    "better",
    [
        said("B", learners=copies({0: 5}, ready=True)),
        said("B", learners=copies({0: 4})),
    ],
    ids=["ready before unready", "further before further behind"],
)
def test_the_best_of_two_learners(better: object) -> None:
    """Two learners of one task, left by two leaders: one takes over, the other stops."""
    members = {"a": said("A", learners=copies({0: 5})), "b": better}
    result = assign(snapshot(members, tasks(0)))
    assert given(result, "b").active == tasks(0)
    assert given(result, "a").learners == frozenset()


def test_preference_among_takers() -> None:
    """Ready learner, previous owner, unready learner, freshest copy, most room: each beats those after it."""
    ready = said("A", learners=copies({0: 9}, ready=True))
    previous = said("B", suspended=tasks(0))
    unready = said("C", learners=copies({0: 1}))
    standby = said("D", standbys=copies({0: 2}))
    on_disk = said("E", dormant=copies({0: 3}))
    stale = said("F", standbys=copies({0: 400}))
    roomy = said("G", capacity=9)
    ranking = [ready, previous, unready, standby, on_disk, stale, roomy]
    for first in range(len(ranking)):
        members = {f"m{index}": each for index, each in enumerate(ranking) if index >= first}
        assert owner(members) == f"m{first}"


def test_the_last_owners_own_copy_is_as_good_as_a_ready_one() -> None:
    """Second step of a move within an instance: standbys elsewhere may be a few records ahead of what was closed."""
    memory = LeaderMemory(owners={T0: worker("A")})
    standby = said("B", standbys=copies({0: 0}, ready=True), capacity=9)
    assert owner({"a": said("A", dormant=copies({0: 3})), "b": standby}, memory=memory) == "a"
    assert owner({"a": said("A", dormant=copies({0: 400_000})), "b": standby}, memory=memory) == "b"


def test_of_equally_fresh_copies_the_one_with_most_room() -> None:
    """Standbys that are ready count as equally fresh, whatever a few records' difference says."""
    members = {
        "a": said("A", active=tasks(1), standbys=copies({0: 1}, ready=True)),
        "b": said("B", standbys=copies({0: 7}, ready=True)),
    }
    result = assign(snapshot(members, tasks(0, 1)))
    assert given(result, "b").active == tasks(0)


def test_state_on_disk_is_not_ready_whatever_it_says() -> None:
    """Nobody follows the changelog for it."""
    members = {"a": said("A", dormant=copies({0: 50}, ready=True)), "b": said("B", standbys=copies({0: 40}))}
    assert owner(members) == "b"


def test_state_on_disk_of_an_instance_goes_to_its_idlest_worker() -> None:
    """All workers of an instance see the same disk; the one with least to do takes the task."""
    members = {
        "a0": said("A", 0, capacity=2, active=tasks(1), dormant=copies({0: 3})),
        "a1": said("A", 1, capacity=2, dormant=copies({0: 3})),
        "b": said("B", active=tasks(2)),
    }
    result = assign(snapshot(members, tasks(0, 1, 2)))
    assert given(result, "a1").active == tasks(0)


def test_a_task_that_the_topology_has_no_more() -> None:
    """It is given up by whoever holds it."""
    result = assign(snapshot({"a": said("A", active=tasks(0, 9), standbys=copies({8: 0}))}, tasks(0), standbys=1))
    assert given(result, "a").active == tasks(0)
    assert given(result, "a").standbys == frozenset()


def test_whose_transactions_to_fence() -> None:
    """Of owners that are gone; not of one that is back under a new member id, which fences itself when it starts."""
    memory = LeaderMemory(
        owners={TaskId(0, 0): worker("dead"), TaskId(0, 1): worker("back"), TaskId(0, 2): worker("A")}
    )
    result = assign(snapshot({"a": said("A", active=tasks(2)), "new": said("back")}, tasks(0, 1, 2), memory=memory))
    for each in ("a", "new"):
        took = tasks(0) <= given(result, each).active
        assert given(result, each).fence == (frozenset({worker("dead")}) if took else frozenset())


def test_a_taken_away_task_is_still_fenced_if_its_owner_dies_in_the_gap() -> None:
    """In the gap of a two-step move the task has no owner, but its last one may have died with a transaction open."""
    members = {"a": said("A", active=tasks(0, 1)), "b": said("B")}
    first = assign(snapshot(members, stateless=tasks(0, 1)))
    assert given(first, "a").rejoin
    second = assign(snapshot({"b": said("B")}, stateless=tasks(0, 1), memory=first.memory))
    assert given(second, "b").fence == {worker("A")}


def test_nobody_may_take_it() -> None:
    """Where all leave, what runs goes on and the rest waits; nothing new is given to those that leave."""
    members = {"a": said("A", active=tasks(0), suspended=tasks(1), leaving=True)}
    result = assign(snapshot(members, tasks(0, 1, 2), tasks(3)))
    assert given(result, "a").active == tasks(0, 1)
    assert [decision.case for decision in result.decisions] == [
        MoveCase.KEEP,
        MoveCase.KEEP,
        MoveCase.WAIT,
        MoveCase.WAIT,
    ]


def test_an_empty_group_and_an_empty_topology() -> None:
    """Nothing to assign, or nobody to assign to, is no error."""
    assert assign(snapshot({})).assignments == {}
    assert [decision.case for decision in assign(snapshot({}, tasks(0))).decisions] == [MoveCase.WAIT]
    assert given(assign(snapshot({"a": said("A")})), "a").active == frozenset()
