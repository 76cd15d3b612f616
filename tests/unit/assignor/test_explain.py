"""A round in words."""

from __future__ import annotations

import json
from dataclasses import replace

from members import said
from walkthrough_table import Walk, task

from assignor.assign import assign
from assignor.explain import LINES_MAX, lines, member_names, report, summary, task_ranges
from assignor.model import (
    Assignment,
    CopyState,
    Decision,
    GroupSnapshot,
    LagRecords,
    LeaderMemory,
    MemberId,
    MoveCase,
    RoundResult,
    TaskId,
)
from assignor.recount import copy_lags


def snapshot(walk: Walk) -> GroupSnapshot:
    members = {MemberId(name): said for name, said in walk.members.items()}
    return GroupSnapshot(members, walk.tasks, walk.settings, walk.memory, walk.now_ms)


def test_a_quiet_round_is_one_line() -> None:
    """Nothing moves, nothing is told but that."""
    walk = Walk("S1[T1], S2[T2]")
    assert lines(walk.assign()) == ["2 tasks: 2 stay"]


def test_who_learns_what_and_what_it_waits_for() -> None:
    """A learner's line names the task, its owner, the reason and what has to happen next."""
    walk = Walk("S1[T1, T2, T3], S2[T4]")
    walk.leaves("S2")
    round_one = snapshot(walk)
    assert lines(assign(round_one), member_names(round_one.members)) == [
        "4 tasks: 3 stay, 1 are being learned",
        "0_4 stays at S2/0 (learn): its owner leaves; the learner's instance has most room; waits for S1/0 to be ready"
        ", which has just begun",
    ]


def test_a_move_and_a_death() -> None:
    """A task that moved says from where to where; one whose owner is gone says who takes it."""
    walk = Walk("S1[T1, T2], S2[T3, T4], S3[T5]")
    walk.joins("S4")
    walk.follow(walk.assign())
    walk.ready("S4")
    walk.suspend()
    walk.crashes("S3")
    told = lines(walk.assign())
    assert told[0] == "5 tasks: 3 stay, 1 moved to a ready learner, 1 taken over from the dead"
    assert "0_1 moves from S1 to S4 (grant): its learner is ready" in told
    assert "0_5 goes to S1 (take_over): most room" in told


def test_members_with_the_same_name_are_told_apart() -> None:
    """Two instances on one host, and one without a name, show their process ids."""
    members = {MemberId(name): each for name, each in (("a", said("A")), ("b", said("B")), ("c", said("C", 2)))}
    members[MemberId("b")] = replace(members[MemberId("b")], name="A")
    members[MemberId("c")] = replace(members[MemberId("c")], name="")
    ids = {member: each.worker.instance.hex()[:8] for member, each in members.items()}
    assert member_names(members) == {"a": f"A {ids['a']}/0", "b": f"A {ids['b']}/0", "c": f"{ids['c']}/2"}
    del members[MemberId("b")]
    assert member_names(members)["a"] == "A/0"


def test_how_far_behind_whoever_takes_over_was() -> None:
    """A copy that was known when the round began: a learner's, a standby's, one on disk."""
    walk = Walk("S1[T1, T2], S2[T3]")
    walk.members["S2"] = replace(walk.members["S2"], standbys={task("T1"): CopyState(LagRecords(30))})
    walk.crashes("S1")
    at = snapshot(walk)
    result = assign(at)
    lags = copy_lags(result, at.members)
    assert lags == {task("T1"): 30}
    assert lines(result, lags=lags)[1:] == [
        "0_1 goes to S2 (take_over): has the best copy of its state, 30 records behind when it joined",
        "0_2 goes to S2 (take_over): most room",
    ]


def test_the_report_is_json() -> None:
    """Everything that a tool needs, in types that any JSON writer takes."""
    walk = Walk("S1[T1, T2]", stateful=False)
    walk.joins("S2")
    told = json.loads(json.dumps(report(walk.assign())))
    assert told == {
        "tasks": 2,
        "cases": {"keep": 1, "revoke": 1},
        "moves": [
            {
                "task": "0_1",
                "case": "revoke",
                "from": "S1",
                "to": None,
                "learner": None,
                "reason": "for balance between instances",
                "waits_for": "S1 to commit it and join again",
                "lag_records": None,
            }
        ],
        "refused": {},
    }


def test_refused_members_are_counted_and_named() -> None:
    """A member with another topology gets an error that names both topologies."""
    walk = Walk("S1[T1], S2[T2]")
    walk.joins("S3")
    walk.members["S3"] = type(walk.members["S3"])(walk.members["S3"].worker, b"elsewhere")
    result = walk.assign()
    assert summary(result) == "2 tasks: 2 stay, 1 members refused"
    text = report(result)["refused"]["S3"]
    assert b"elsewhere".hex() in text
    assert b"topology".hex() in text
    assert lines(result)[-1] == f"S3 is refused: {text}"


def test_many_tasks_are_told_together() -> None:
    """Tasks that share a story share a line, and lines are limited."""
    assert (
        task_ranges(TaskId(s, p) for s, p in [(0, 4), (0, 5), (0, 6), (0, 1), (1, 7), (2, 8)]) == "0_1 0_4..0_6 1_7 2_8"
    )
    decisions = tuple(
        Decision(TaskId(0, p), MoveCase.START, MemberId(f"m{p % 60}"), None, None, "most room") for p in range(120)
    )
    told = lines(RoundResult({MemberId("m0"): Assignment()}, decisions, LeaderMemory()))
    assert len(told) == LINES_MAX + 2
    assert told[-1] == "and 20 more tasks"
