"""Whoever describes a group tells its last round as the leader decided it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sim.schedule import play

from assignor.assign import assign
from assignor.model import Decision, GroupSnapshot, MemberId, MoveCase, RoundResult, TaskId
from assignor.recount import REASONS_MAX, UNTOLD, reasons, recount
from assignor.wire import decode_assignment, encode_assignment
from kstreams_worker.group import leader

HISTORIES = 40


def recounted(snapshot: GroupSnapshot, result: RoundResult) -> RoundResult:
    """The round as the broker's answer tells it: the leader is the first member, all has been on the wire."""
    first = min(result.assignments)
    given = {
        **result.assignments,
        first: replace(result.assignments[first], reasons=reasons(result.decisions)),
    }
    return recount(
        snapshot.members, {member: decode_assignment(encode_assignment(each)) for member, each in given.items()}
    )


def claimants(snapshot: GroupSnapshot, task: TaskId) -> int:
    """How many members say that they have the task."""
    return sum(task in said.active or task in said.suspended for said in snapshot.members.values())


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_random_histories_are_told_as_they_were_decided(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every round of a history, decision by decision. Of several claimants one is named, whichever the leader thought of."""
    told = 0

    def checked(snapshot: GroupSnapshot) -> RoundResult:
        nonlocal told
        result = assign(snapshot)
        again = recounted(snapshot, result)
        for decision, repeated in zip(result.decisions, again.decisions, strict=True):
            if claimants(snapshot, decision.task) > 1:
                assert repeated.previous is not None
                repeated = repeated._replace(previous=decision.previous)  # noqa: PLW2901
            assert repeated == decision
        told += 1
        return result

    monkeypatch.setattr(leader, "assign", checked)
    outcome = play(seed)
    assert not outcome.broken, outcome
    assert told


def test_reasons_are_bounded() -> None:
    """Beyond the limit the rarest of each case are told together, and every task keeps its case."""
    decisions = [
        Decision(TaskId(0, number), case, MemberId("m"), None, None, f"{number // 2} records behind")
        for number in range(4 * REASONS_MAX)
        for case in [MoveCase.START if number % 4 < 2 else MoveCase.LEARN]
    ]
    told = reasons(decisions)
    assert len(told) == REASONS_MAX + 2
    assert {(reason.case, reason.text) for reason in told[REASONS_MAX:]} == {
        (MoveCase.START, UNTOLD),
        (MoveCase.LEARN, UNTOLD),
    }
    cases = {task: reason.case for reason in told for task in reason.tasks}
    assert cases == {decision.task: decision.case for decision in decisions}
