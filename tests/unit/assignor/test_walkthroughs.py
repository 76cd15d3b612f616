"""The walk-throughs of KIP-429's drafts, round by round, and those that follow from them.

Two slips of the drafts are set right: a learner that asks for a round because it is ready is ready in that round, and an owner
suspends all of its tasks that are being learned, not only the one whose learner is ready.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from walkthrough_table import Walk, task

from assignor.model import AssignorSettings, CopyState, LagRecords, MoveCase


def test_scale_up_a_running_group() -> None:
    """Newcomers learn first, and take over one by one as they are ready; five members end with one task each."""
    walk = Walk("S1[T1, T2], S2[T3, T4], S3[T5]")
    walk.joins("S4")
    walk.round("""
        S1(assigned: [T1, T2], revoked: [], learning: [])
        S2(assigned: [T3, T4], revoked: [], learning: [])
        S3(assigned: [T5], revoked: [], learning: [])
        S4(assigned: [], revoked: [], learning: [T1])
    """)
    walk.joins("S5")
    walk.round(
        status="""
        S1(assigned: [T2], revoked: [T1], learning: [])
        S2(assigned: [T3, T4], revoked: [], learning: [])
        S3(assigned: [T5], revoked: [], learning: [])
        S4(assigned: [], revoked: [], learning: [T1])
        S5(assigned: [], revoked: [], learning: [])
        """,
        assigns="""
        S1(assigned: [T1, T2], revoked: [], learning: [])
        S2(assigned: [T3, T4], revoked: [], learning: [])
        S3(assigned: [T5], revoked: [], learning: [])
        S4(assigned: [], revoked: [], learning: [T1])
        S5(assigned: [], revoked: [], learning: [T3])
        """,
    )
    walk.ready("S4")
    walk.round(
        status="""
        S1(assigned: [T2], revoked: [T1], learning: [])
        S2(assigned: [T4], revoked: [T3], learning: []) // T3 revoked because it's "being learned"
        S3(assigned: [T5], revoked: [], learning: [])
        S4(assigned: [], revoked: [], learning: [T1])
        S5(assigned: [], revoked: [], learning: [T3])
        """,
        assigns="""
        S1(assigned: [T2], revoked: [T1], learning: [])
        S2(assigned: [T3, T4], revoked: [], learning: [])
        S3(assigned: [T5], revoked: [], learning: [])
        S4(assigned: [T1], revoked: [], learning: [])
        S5(assigned: [], revoked: [], learning: [T3])
        """,
    )
    walk.ready("S5")
    walk.round(
        status="""
        S1(assigned: [T2], revoked: [], learning: [])
        S2(assigned: [T4], revoked: [T3], learning: [])
        S3(assigned: [T5], revoked: [], learning: [])
        S4(assigned: [T1], revoked: [], learning: [])
        S5(assigned: [], revoked: [], learning: [T3])
        """,
        assigns="""
        S1(assigned: [T2], revoked: [], learning: [])
        S2(assigned: [T4], revoked: [T3], learning: [])
        S3(assigned: [T5], revoked: [], learning: [])
        S4(assigned: [T1], revoked: [], learning: [])
        S5(assigned: [T3], revoked: [], learning: [])
        """,
    )
    walk.check()
    before = walk.owned()
    walk.follow(walk.assign())
    assert walk.owned() == before, "a fifth round changes nothing"


def test_scale_up_from_an_empty_group() -> None:
    """What nobody runs is given out at once; only what runs has to be learned."""
    walk = Walk("S1[T1, T2, T3, T4, T5]", alike=("S2", "S3"))
    walk.members.clear()
    walk.new_leader()
    walk.joins("S1")
    walk.round("S1(assigned: [T1, T2, T3, T4, T5], revoked: [], learning: []) // T1 to T5 were owned by nobody")
    assert set(walk.cases().values()) == {MoveCase.START}
    walk.joins("S2", "S3")
    walk.round("""
        S1(assigned: [T1, T2, T3, T4, T5], revoked: [], learning: [])
        S2(assigned: [], revoked: [], learning: [T3, T4])
        S3(assigned: [], revoked: [], learning: [T5])
    """)
    walk.ready("S2", "S3")
    walk.round(
        status="""
        S1(assigned: [T1, T2], revoked: [T3, T4, T5], learning: [])
        S2(assigned: [], revoked: [], learning: [T3, T4])
        S3(assigned: [], revoked: [], learning: [T5])
        """,
        assigns="""
        S1(assigned: [T1, T2], revoked: [T3, T4, T5], learning: [])
        S2(assigned: [T3, T4], revoked: [], learning: [])
        S3(assigned: [T5], revoked: [], learning: [])
        """,
    )
    walk.check()


def test_scale_down() -> None:
    """A leaving member runs its tasks until others have learned them, and goes when it has none left."""
    walk = Walk("S1[T1, T2], S2[T3, T4], S3[T5]")
    walk.leaves("S2")
    walk.round("""
        S1(assigned: [T1, T2], revoked: [], learning: [T3])
        S2(assigned: [T3, T4], revoked: [], learning: [])
        S3(assigned: [T5], revoked: [], learning: [T4])
    """)
    walk.ready("S3")
    walk.round(
        status="""
        S1(assigned: [T1, T2], revoked: [], learning: [T3])
        S2(assigned: [], revoked: [T3, T4], learning: []) // both are being learned
        S3(assigned: [T5], revoked: [], learning: [T4])
        """,
        assigns="""
        S1(assigned: [T1, T2], revoked: [], learning: [T3])
        S2(assigned: [T3], revoked: [T4], learning: [])
        S3(assigned: [T4, T5], revoked: [], learning: [])
        """,
    )
    walk.ready("S1")
    walk.round(
        status="""
        S1(assigned: [T1, T2], revoked: [], learning: [T3])
        S2(assigned: [], revoked: [T3], learning: [])
        S3(assigned: [T4, T5], revoked: [], learning: [])
        """,
        assigns="""
        S1(assigned: [T1, T2, T3], revoked: [], learning: [])
        S2(assigned: [], revoked: [T3], learning: [])
        S3(assigned: [T4, T5], revoked: [], learning: [])
        """,
    )
    walk.check()
    assert "S2" not in walk.members


def test_online_host_swap() -> None:
    """Twice the instances, then the old half leaves: every task moves once, none back and forth."""
    walk = Walk("S1[T1, T2], S2[T3, T4]", alike=("S3", "S4"))
    walk.joins("S3", "S4")
    walk.round("""
        S1(assigned: [T1, T2], revoked: [], learning: [])
        S2(assigned: [T3, T4], revoked: [], learning: [])
        S3(assigned: [], revoked: [], learning: [T2])
        S4(assigned: [], revoked: [], learning: [T4])
    """)
    walk.leaves("S1", "S2")
    walk.round(
        status="""
        S1(assigned: [T1], revoked: [T2], learning: [])
        S2(assigned: [T3], revoked: [T4], learning: [])
        S3(assigned: [], revoked: [], learning: [T2])
        S4(assigned: [], revoked: [], learning: [T4])
        """,
        assigns="""
        S1(assigned: [T1, T2], revoked: [], learning: [])
        S2(assigned: [T3, T4], revoked: [], learning: [])
        S3(assigned: [], revoked: [], learning: [T1, T2])
        S4(assigned: [], revoked: [], learning: [T3, T4])
        """,
    )
    walk.ready("S3", "S4")
    walk.round(
        status="""
        S1(assigned: [], revoked: [T1, T2], learning: [])
        S2(assigned: [], revoked: [T3, T4], learning: [])
        S3(assigned: [], revoked: [], learning: [T1, T2])
        S4(assigned: [], revoked: [], learning: [T3, T4])
        """,
        assigns="""
        S1(assigned: [], revoked: [], learning: [])
        S2(assigned: [], revoked: [], learning: [])
        S3(assigned: [T1, T2], revoked: [], learning: [])
        S4(assigned: [T3, T4], revoked: [], learning: [])
        """,
    )
    walk.check()
    assert set(walk.members) == {"S3", "S4"}


@pytest.mark.parametrize("remembers", [True, False], ids=["memory kept", "new leader without memory"])
def test_the_leader_dies_while_its_task_is_learned(remembers: bool) -> None:
    """A learner whose task runs nowhere becomes its active at once; the other task goes to where most room is."""
    walk = Walk("S1[T1, T2], S2[T3, T4], S3[T5]")
    walk.joins("S4")
    walk.round("""
        S1(assigned: [T1, T2], revoked: [], learning: [])
        S2(assigned: [T3, T4], revoked: [], learning: [])
        S3(assigned: [T5], revoked: [], learning: [])
        S4(assigned: [], revoked: [], learning: [T1])
    """)
    walk.crashes("S1")
    if not remembers:
        walk.new_leader()
    walk.round(
        status="""
        S2(assigned: [T3, T4], revoked: [], learning: [])
        S3(assigned: [T5], revoked: [], learning: [])
        S4(assigned: [], revoked: [], learning: [T1])
        """,
        assigns="""
        S2(assigned: [T3, T4], revoked: [], learning: [])
        S3(assigned: [T5, T2], revoked: [], learning: [])
        S4(assigned: [T1], revoked: [], learning: [])
        """,
    )
    walk.check()


def test_the_leader_dies_as_newcomers_join() -> None:
    """Its task is given out at once as in the draft; the skew that the draft leaves is repaired by learners."""
    walk = Walk("S1[T1], S2[T2, T3, T4, T5]", alike=("S3", "S4"))
    walk.crashes("S1")
    walk.new_leader()
    walk.joins("S3", "S4")
    walk.suspend()
    walk.follow(walk.assign())
    assert walk.owned() == {"S2": "T2 T3 T4 T5", "S3": "T1", "S4": ""}
    assert {name: len(said.learners) for name, said in walk.members.items()} == {"S2": 0, "S3": 1, "S4": 1}
    walk.ready("S3", "S4")
    walk.suspend()
    walk.follow(walk.assign())
    assert {name: len(said.active) for name, said in walk.members.items()} == {"S2": 2, "S3": 2, "S4": 1}


def test_stateless_tasks_move_in_two_steps() -> None:
    """A stateless task is taken away in one round and given in the next; its owner is told to join again."""
    walk = Walk("S1[T1, T2, T3, T4]", stateful=False)
    walk.joins("S2")
    walk.round("""
        S1(assigned: [T3, T4], revoked: [], learning: [])
        S2(assigned: [], revoked: [], learning: [])
    """)
    assert walk.rejoin == {"S1"}
    walk.round("""
        S1(assigned: [T3, T4], revoked: [], learning: [])
        S2(assigned: [T1, T2], revoked: [], learning: [])
    """)
    walk.check()
    assert walk.rejoin == set()
    assert sorted(walk.cases().values(), key=str) == [MoveCase.HAND_ON] * 2 + [MoveCase.KEEP] * 2


@pytest.mark.parametrize("partial", [True, False])
def test_learners_take_over_one_by_one_or_all_at_once(partial: bool) -> None:
    """learner.partial.rebalance decides when a learner asks for a round; the leader moves what is ready in any round."""
    walk = Walk("S1[T1, T2, T3, T4]")
    walk.joins("S2")
    walk.round("""
        S1(assigned: [T1, T2, T3, T4], revoked: [], learning: [])
        S2(assigned: [], revoked: [], learning: [T1, T2])
    """)
    learned = sorted(f"T{each.partition}" for each in walk.members["S2"].learners)
    if partial:
        walk.ready("S2", only=learned[0])
        walk.suspend()
        walk.follow(walk.assign())
        assert walk.owned()["S2"] == learned[0]
        assert walk.cases()[learned[1]] is MoveCase.LEARN
    walk.ready("S2")
    walk.suspend()
    walk.follow(walk.assign())
    assert walk.owned()["S2"] == " ".join(learned)
    walk.check()


def test_standbys_become_learners_on_scale_down() -> None:
    """A member that leaves hands over to those that have warm copies already; no copy is restored twice."""
    walk = Walk("S1[T1, T2], S2[T3, T4], S3[T5]", settings=AssignorSettings(num_standby_tasks=1))
    walk.follow(walk.assign())
    warm = {name: dict.fromkeys(said.standbys, CopyState(LagRecords(3))) for name, said in walk.members.items()}
    for name, standbys in warm.items():
        walk.members[name] = replace(walk.members[name], standbys=standbys)
    walk.leaves("S2")
    walk.suspend()
    walk.follow(walk.assign())
    learners = {each: name for name, said in walk.members.items() for each in said.learners}
    assert set(learners) == {task("T3"), task("T4")}
    for each, name in learners.items():
        assert each in warm[name], f"{each} is learned where no copy was"
        assert walk.members[name].learners[each].lag == 3, "the copy went on, it was not restored anew"
    walk.ready("S1", "S3")
    walk.suspend()
    walk.follow(walk.assign())
    assert set(walk.members) == {"S1", "S3"}
    for said in walk.members.values():
        assert len(said.active | said.standbys.keys()) == 5, "every task has its active and its standby again"


def test_patience_to_leave_ends() -> None:
    """Past the deadline learners take over unready; what still runs is taken away first and given in the next round."""
    walk = Walk("S1[T1, T2], S2[T3, T4], S3[T5]")
    walk.leaves("S2", timeout_ms=5000)
    walk.suspend()
    walk.follow(walk.assign())
    assert walk.memory.leaving_deadlines_ms == {"S2": 5000}
    walk.now_ms = 4999
    walk.suspend()
    walk.follow(walk.assign())
    assert walk.owned()["S2"] == "T3 T4", "not a moment before"
    walk.now_ms = 5000
    walk.suspend()
    walk.follow(walk.assign())
    assert walk.cases() == {
        "T1": MoveCase.KEEP,
        "T2": MoveCase.KEEP,
        "T3": MoveCase.FORCE,
        "T4": MoveCase.FORCE,
        "T5": MoveCase.KEEP,
    }
    assert "S2" not in walk.members


def test_patience_ends_while_a_task_still_runs() -> None:
    """An owner that has not suspended a task is never passed over, not even past its deadline."""
    walk = Walk("S1[T1], S2[T2]")
    walk.leaves("S2", timeout_ms=0)
    walk.follow(walk.assign())
    walk.now_ms = 1
    walk.follow(walk.assign())
    assert walk.cases()["T2"] is MoveCase.REVOKE
    assert walk.rejoin == {"S2"}
    walk.follow(walk.assign())
    assert walk.owned() == {"S1": "T1 T2"}


def learning_group() -> Walk:
    """S1[T1, T2], S2[T3, T4], S3[T5], where S4 has begun to learn T1."""
    walk = Walk("S1[T1, T2], S2[T3, T4], S3[T5]")
    walk.joins("S4")
    walk.suspend()
    walk.follow(walk.assign())
    assert set(walk.members["S4"].learners) == {task("T1")}
    return walk


def test_the_learner_crashes() -> None:
    """Its task stays where it is, resumed from suspension, and the balance of before is enough."""
    walk = learning_group()
    walk.crashes("S4")
    walk.suspend()
    walk.follow(walk.assign())
    assert walk.owned() == {"S1": "T1 T2", "S2": "T3 T4", "S3": "T5"}
    assert not any(said.learners for said in walk.members.values())


def test_the_active_being_learned_crashes() -> None:
    """The unready learner takes over at once, and fences the dead worker."""
    walk = learning_group()
    dead = walk.members["S1"].worker
    walk.crashes("S1")
    walk.suspend()
    result = walk.assign()
    walk.follow(result)
    assert walk.owned() == {"S2": "T3 T4", "S3": "T2 T5", "S4": "T1"}
    assert {member for member, given in result.assignments.items() if dead in given.fence} == {"S3", "S4"}
    assert walk.cases()["T1"] is MoveCase.TAKE_OVER


def test_a_leaving_member_crashes() -> None:
    """What it had goes to its learners at once."""
    walk = Walk("S1[T1, T2], S2[T3, T4], S3[T5]")
    walk.leaves("S2")
    walk.suspend()
    walk.follow(walk.assign())
    learners = {each: name for name, said in walk.members.items() for each in said.learners}
    walk.crashes("S2")
    walk.suspend()
    walk.follow(walk.assign())
    assert all(each in walk.members[name].active for each, name in learners.items())


def test_two_crash_at_once() -> None:
    """Learner and active both go: the task starts elsewhere, nothing is left without owner."""
    walk = learning_group()
    walk.crashes("S1", "S4")
    walk.suspend()
    walk.follow(walk.assign())
    assert sorted(len(said.active) for said in walk.members.values()) == [2, 3]
    assert walk.cases()["T1"] is MoveCase.TAKE_OVER


def test_the_leader_crashes_in_mid_round() -> None:
    """Nobody heard the result: the round is made again by another leader from what the members still hold."""
    walk = learning_group()
    walk.ready("S4")
    walk.suspend()
    walk.assign()  # computed, never handed out
    walk.crashes("S3")
    walk.new_leader()
    walk.follow(walk.assign())
    assert walk.cases()["T1"] is MoveCase.GRANT, "S1 still has it suspended, and S4 is still ready"
    assert walk.owned()["S4"].startswith("T1")
    assert sum(len(said.active) for said in walk.members.values()) == 5
