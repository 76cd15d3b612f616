"""How evenly, how seldom, and which: capacity, range, newcomers, warm copies, workers of one instance."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from members import copies, given, loads, said, snapshot, tasks

from assignor.assign import assign
from assignor.model import LeaderMemory, MemberId, MoveCase, RoundResult, TaskId
from assignor.target import imbalance, mixed, share_bounds


def learners(result: RoundResult) -> dict[str, int]:
    return {str(member): len(each.learners) for member, each in sorted(result.assignments.items()) if each.learners}


def test_shares_follow_capacity() -> None:
    """An instance of twice the capacity gets twice the tasks, and its workers share them evenly."""
    members = {"a0": said("A", 0, capacity=2), "a1": said("A", 1, capacity=2), "b": said("B", capacity=1)}
    assert loads(assign(snapshot(members, tasks(*range(9))))) == {"a0": 3, "a1": 3, "b": 3}
    members = {"a0": said("A", 0, capacity=4), "a1": said("A", 1, capacity=4), "b": said("B", capacity=1)}
    assert loads(assign(snapshot(members, tasks(*range(10))))) == {"a0": 4, "a1": 4, "b": 2}


def test_the_two_kinds_are_balanced_apart() -> None:
    """Each kind is spread evenly, and where both leave one over they go to different workers."""
    members = {"a": said("A"), "b": said("B")}
    result = assign(snapshot(members, tasks(0, 1, 2), tasks(3, 4, 5)))
    assert loads(result) == {"a": 3, "b": 3}
    stateful = {name: len(given(result, name).active & tasks(0, 1, 2)) for name in members}
    assert sorted(stateful.values()) == [1, 2]


@pytest.mark.parametrize(
    ("percentage", "moves"),
    [(0.0, 1), (0.1, 1), (0.2, 0)],
)
def test_within_the_range_nothing_moves(percentage: float, moves: int) -> None:
    """Loads 12 and 8 of 10 each are within a fifth; outside of the range the plan goes on to the tightest balance."""
    members = {"a": said("A", active=tasks(*range(12))), "b": said("B", active=tasks(*range(12, 20)))}
    result = assign(snapshot(members, tasks(*range(20)), imbalance=percentage))
    assert learners(result) == ({"b": 2} if moves else {})
    result = assign(snapshot(members, stateless=tasks(*range(20)), imbalance=percentage))
    assert given(result, "a").rejoin is bool(moves)
    assert loads(result) == {"a": 10 if moves else 12, "b": 8}


def test_bounds_are_never_tighter_than_whole_tasks() -> None:
    """A share of 2.5 allows 2 and 3 even at no tolerance at all."""
    assert share_bounds(5, 2, 0.0) == (2, 3)
    assert share_bounds(20, 2, 0.2) == (8, 12)
    assert share_bounds(1, 5, 0.2) == (0, 1)
    assert share_bounds(6, 2, 0.0) == (3, 3)


def test_fewer_tasks_than_workers_do_not_wander() -> None:
    """The classic endless shuffle: idle workers are no reason to move anything."""
    members = {"a": said("A", active=tasks(0)), "b": said("B", active=tasks(1))} | {
        f"idle{index}": said(f"I{index}") for index in range(5)
    }
    result = assign(snapshot(members, tasks(0, 1)))
    assert {decision.case for decision in result.decisions} == {MoveCase.KEEP}


def test_every_plan_lowers_the_imbalance() -> None:
    """The stated measure falls strictly whenever learners are planned, so planning ends."""
    dice = random.Random(4)
    planned = 0
    for _ in range(200):
        capacity = [dice.randint(1, 4) for _ in range(dice.randint(2, 5))]
        before = [dice.randint(0, 9) for _ in capacity]
        start, members = 0, {}
        for index, (load, each) in enumerate(zip(before, capacity, strict=True)):
            name = f"m{index}"
            members[name] = said(name, capacity=each, active=tasks(*range(start, start + load)))
            start += load
        result = assign(snapshot(members, tasks(*range(start))))
        after = [
            load + len(given(result, f"m{index}").learners) - len(given(result, f"m{index}").being_learned)
            for index, load in enumerate(before)
        ]
        assert sum(after) == sum(before)
        if after != before:
            planned += 1
            assert imbalance(zip(after, capacity, strict=True)) < imbalance(zip(before, capacity, strict=True))
            give = [index for index, load in enumerate(after) if load]
            for one in give:
                for other in range(len(after)):
                    moved = list(after)
                    moved[one] -= 1
                    moved[other] += 1
                    tightest = imbalance(zip(after, capacity, strict=True))
                    assert imbalance(zip(moved, capacity, strict=True)) >= tightest - 1e-9
    assert planned > 50


def test_existing_learners_count_as_moved() -> None:
    """A group that is on its way to balance plans nothing on top."""
    members = {
        "a": said("A", active=tasks(0, 1), suspended=tasks(2, 3)),
        "b": said("B", learners=copies({2: 9, 3: 9})),
    }
    result = assign(snapshot(members, tasks(0, 1, 2, 3)))
    assert given(result, "b").learners == tasks(2, 3)
    assert given(result, "a").being_learned == tasks(2, 3)


def test_a_balance_move_goes_where_a_copy_is() -> None:
    """Whoever needs tasks gets those of which it has a copy, and of several copies the freshest."""
    members = {
        "a": said("A", active=tasks(0, 1, 2, 3)),
        "b": said("B", active=tasks(4), standbys=copies({3: 5})),
        "c": said("C", active=tasks(5), dormant=copies({1: 7})),
    }
    result = assign(snapshot(members, tasks(*range(6)), imbalance=0.0))
    assert given(result, "b").learners == tasks(3)
    assert given(result, "c").learners == tasks(1)


def test_a_leaving_members_task_goes_where_a_copy_is() -> None:
    """A standby within the range becomes the learner, though another instance has more room."""
    members = {
        "a": said("A", active=tasks(0), leaving=True),
        "b": said("B", active=tasks(1, 2), standbys=copies({0: 5})),
        "c": said("C", active=tasks(3)),
    }
    result = assign(snapshot(members, tasks(*range(4)), imbalance=0.5))
    assert given(result, "b").learners == tasks(0)


def test_a_copy_on_a_full_instance_does_not_count() -> None:
    """Beyond the range the task goes to where most room is."""
    members = {
        "a": said("A", active=tasks(0), leaving=True),
        "b": said("B", active=tasks(1, 2, 3), standbys=copies({0: 5})),
        "c": said("C", active=tasks(4, 5)),
    }
    result = assign(snapshot(members, tasks(*range(6)), imbalance=0.0))
    assert given(result, "c").learners == tasks(0)


def test_newcomers_with_abundant_room_come_first() -> None:
    """They take a leaving member's tasks even where others have a copy, until they are within the range."""
    members = {
        "a": said("A", active=tasks(0, 1, 2), leaving=True),
        "b": said("B", active=tasks(3), standbys=copies({0: 5, 1: 5, 2: 5})),
        "new": said("N"),
    }
    memory = LeaderMemory(participants={MemberId(name): members[name].worker for name in ("a", "b")})
    result = assign(snapshot(members, tasks(*range(4)), memory=memory, imbalance=0.0))
    assert given(result, "new").learners == tasks(0, 1)
    assert given(result, "b").learners == tasks(2)
    # Known from last time, it is no newcomer: the copies go first.
    memory = LeaderMemory(participants={MemberId(name): members[name].worker for name in members})
    result = assign(snapshot(members, tasks(*range(4)), memory=memory, imbalance=0.0))
    assert given(result, "new").learners == tasks(1, 2)
    assert given(result, "b").learners == tasks(0)


def test_workers_of_an_instance_even_out_in_two_steps() -> None:
    """No learner, no restore: the state lies on the instance's disk. Round two gives the task to the idler worker."""
    members = {
        "a0": said("A", 0, capacity=2, active=tasks(0, 1, 2, 3)),
        "a1": said("A", 1, capacity=2),
    }
    first = assign(snapshot(members, tasks(*range(4))))
    assert loads(first) == {"a0": 2, "a1": 0}
    assert given(first, "a0").rejoin
    gone = tasks(*range(4)) - given(first, "a0").active
    for report in ({"dormant": copies({task.partition: 0 for task in gone})}, {}):
        members["a0"] = replace(said("A", 0, capacity=2, active=given(first, "a0").active), **report)
        second = assign(snapshot(members, tasks(*range(4)), memory=first.memory))
        assert given(second, "a1").active == gone, report
        assert not given(second, "a0").rejoin
        assert {decision.case for decision in second.decisions} == {MoveCase.KEEP, MoveCase.HAND_ON}


def test_a_task_in_the_gap_stays_on_its_instance_though_others_have_a_copy() -> None:
    """As fresh as a standby elsewhere, its own instance has the better right to it."""
    members = {
        "a0": said("A", 0, capacity=2, active=tasks(1), dormant=copies({0: 0})),
        "a1": said("A", 1, capacity=2, dormant=copies({0: 0})),
        "b": said("B", active=tasks(2), standbys=copies({0: 0})),
    }
    memory = LeaderMemory(owners={TaskId(0, 0): members["a0"].worker})
    result = assign(snapshot(members, tasks(0, 1, 2), memory=memory))
    assert given(result, "a1").active == tasks(0)


def test_suspended_without_learner_is_resumed_where_it_is_open() -> None:
    """The learner died. No other worker of the instance can open the state before its owner has closed it: if that leaves
    the workers uneven, one round more takes a task away, and the one after that gives it."""
    members = {
        "a0": said("A", 0, capacity=2, suspended=tasks(0, 1)),
        "a1": said("A", 1, capacity=2),
    }
    result = assign(snapshot(members, tasks(0, 1)))
    assert given(result, "a0").active == tasks(0, 1)
    assert given(result, "a0").rejoin
    members["a0"] = said("A", 0, capacity=2, active=tasks(0, 1))
    assert len(given(assign(snapshot(members, tasks(0, 1))), "a0").active) == 1


def test_open_state_does_not_change_hands_within_an_instance() -> None:
    """A full instance's standby that has to become the learner does so at the worker that has it open."""
    members = {
        "a": said("A", active=tasks(0), leaving=True),
        "b0": said("B", 0, capacity=2, active=tasks(1, 2), standbys=copies({0: 9})),
        "b1": said("B", 1, capacity=2),
    }
    assert given(assign(snapshot(members, tasks(0, 1, 2))), "b0").learners == tasks(0)


def test_what_was_just_given_evens_out_in_the_next_round() -> None:
    """A worker that takes over more than its share from its standbys runs them at once, and is asked for one round more."""
    members = {
        "a0": said("A", 0, capacity=2, standbys=copies({0: 0, 1: 0})),
        "a1": said("A", 1, capacity=2),
    }
    first = assign(snapshot(members, tasks(0, 1)))
    assert given(first, "a0").active == tasks(0, 1)
    assert given(first, "a0").rejoin
    members["a0"] = said("A", 0, capacity=2, active=tasks(0, 1))
    second = assign(snapshot(members, tasks(0, 1)))
    assert len(given(second, "a0").active) == 1


def test_a_giving_instance_stays_even() -> None:
    """It gives from its fullest workers, so that no second move is needed among those that stay."""
    members = {
        "a0": said("A", 0, capacity=2, active=tasks(0, 1, 2, 3)),
        "a1": said("A", 1, capacity=2, active=tasks(4, 5, 6, 7)),
        "b0": said("B", 0, capacity=2),
        "b1": said("B", 1, capacity=2),
    }
    result = assign(snapshot(members, tasks(*range(8))))
    assert {name: len(given(result, name).being_learned) for name in ("a0", "a1")} == {"a0": 2, "a1": 2}
    assert learners(result) == {"b0": 2, "b1": 2}
    assert not any(each.rejoin for each in result.assignments.values())


def test_an_instance_leaves_as_a_whole() -> None:
    """Its workers say so one after the other; none of them is given what another has to leave behind."""
    members = {
        "a0": said("A", 0, capacity=2, active=tasks(0), leaving=True),
        "a1": said("A", 1, capacity=2, active=tasks(1)),
        "b": said("B", active=tasks(2)),
    }
    result = assign(snapshot(members, tasks(0, 1, 2)))
    assert given(result, "b").learners == tasks(0, 1)


def test_an_owner_that_kept_a_task_whose_learner_is_ready() -> None:
    """It guessed wrong which learner was ready: never a second owner, but one round more."""
    members = {"a": said("A", active=tasks(0, 1)), "b": said("B", learners=copies({1: 0}, ready=True))}
    first = assign(snapshot(members, tasks(0, 1)))
    assert given(first, "a").active == tasks(0, 1)
    assert given(first, "a").being_learned == tasks(1)
    assert given(first, "a").rejoin
    members["a"] = said("A", active=tasks(0), suspended=tasks(1))
    assert given(assign(snapshot(members, tasks(0, 1))), "b").active == tasks(1)


def test_tasks_to_give_are_mixed_over_subtopologies() -> None:
    """Any first part of the order takes evenly, beginning with the subtopology that has most."""
    of_three = tasks(0, 1, 2) | tasks(0, 1, subtopology=1) | tasks(5, subtopology=2)
    assert [task.subtopology for task in mixed(of_three)] == [0, 0, 1, 0, 1, 2]
