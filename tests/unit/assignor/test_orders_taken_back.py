"""A member is to stay after all: what others had begun to learn for it is given up where no balance needs it."""

from __future__ import annotations

import pytest
from walkthrough_table import Walk

from assignor.model import AssignorSettings, MoveCase


def a_round(walk: Walk) -> None:
    walk.suspend()
    walk.follow(walk.assign())


def learned(walk: Walk) -> dict[str, int]:
    """How many tasks each member learns."""
    return {member: len(said.learners) for member, said in walk.members.items() if said.learners}


@pytest.mark.parametrize("ready", [False, True], ids=["learners at work", "learners ready"])
def test_its_tasks_stay_where_they_are(ready: bool) -> None:
    """In the very next round, whether the learners were ready or not; and then nothing is left to do."""
    walk = Walk("S1[T1, T2], S2[T3, T4]")
    walk.leaves("S2")
    a_round(walk)
    assert learned(walk) == {"S1": 2}
    if ready:
        walk.ready("S1")
    walk.stays("S2")
    for _ in range(2):
        a_round(walk)
        assert walk.owned() == {"S1": "T1 T2", "S2": "T3 T4"}
        assert set(walk.cases().values()) == {MoveCase.KEEP}
        assert not learned(walk)
        assert not walk.rejoin


def test_a_learner_that_was_a_standby_is_one_again() -> None:
    walk = Walk("S1[T1, T2], S2[T3, T4]", AssignorSettings(num_standby_tasks=1))
    a_round(walk)
    before = {member: set(said.standbys) for member, said in walk.members.items()}
    walk.leaves("S2")
    a_round(walk)
    assert learned(walk) == {"S1": 2}
    walk.stays("S2")
    a_round(walk)
    assert not learned(walk)
    assert {member: set(said.standbys) for member, said in walk.members.items()} == before


def test_of_its_tasks_that_have_moved_as_many_come_back_as_balance_needs() -> None:
    """What is still being learned stays for it; only for the rest it learns anew."""
    walk = Walk("S1[T1, T2, T3], S2[T4, T5, T6]")
    walk.leaves("S2")
    a_round(walk)
    walk.ready("S1", only="T4")
    a_round(walk)
    assert walk.owned() == {"S1": "T1 T2 T3 T4", "S2": "T5 T6"}
    walk.stays("S2")
    a_round(walk)
    assert learned(walk) == {"S2": 1}
    walk.ready("S2")
    a_round(walk)
    assert {member: len(said.active) for member, said in walk.members.items()} == {"S1": 3, "S2": 3}


def test_a_learner_that_lightens_its_owner_goes_on() -> None:
    """A newcomer learns for balance: that others leave and stay changes nothing of it."""
    walk = Walk("S1[T1, T2, T3, T4], S2[T5, T6]")
    walk.joins("S3")
    a_round(walk)
    assert learned(walk) == {"S3": 2}
    mine = set(walk.members["S3"].learners)
    walk.leaves("S2")
    a_round(walk)
    walk.stays("S2")
    a_round(walk)
    assert learned(walk) == {"S3": 2}
    assert set(walk.members["S3"].learners) == mine
    assert walk.owned()["S2"] == "T5 T6"
