"""The checks can fail: an assignor, a worker or a codec broken on purpose is found out, with the command to replay it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sim.schedule import play

from assignor.assign import assign
from assignor.model import Assignment, GroupSnapshot, MemberId, RoundResult, Subscription, TaskId
from kstreams_worker.group import claims, leader
from kstreams_worker.simulator import loop, membership, world

SEEDS = range(200)
"""Played until one fails: that a worker forgets what its busy loop has yet to see shows in about one of 75."""

Breaking = Callable[[GroupSnapshot, dict[MemberId, Assignment]], None]


def first_failure(complaint: str) -> str:
    """What the first schedule says that fails with this complaint, or nothing. What is broken may show in other ways first."""
    return next((str(outcome) for outcome in map(play, SEEDS) if complaint in outcome.broken), "")


def broken_assignor(breaking: Breaking) -> Callable[[GroupSnapshot], RoundResult]:
    def broken(snapshot: GroupSnapshot) -> RoundResult:
        result = assign(snapshot)
        assignments = dict(result.assignments)
        breaking(snapshot, assignments)
        return replace(result, assignments=assignments)

    return broken


def give_to_unready_learners(snapshot: GroupSnapshot, assignments: dict[MemberId, Assignment]) -> None:
    for member, given in list(assignments.items()):
        taken = {t for t in given.learners if any(t in said.suspended for said in snapshot.members.values())}
        for other, theirs in list(assignments.items()):
            assignments[other] = replace(
                theirs, active=theirs.active - taken, being_learned=theirs.being_learned - taken
            )
        mine = assignments[member]
        assignments[member] = replace(mine, active=mine.active | taken, learners=mine.learners - taken)


def give_one_task_to_two(snapshot: GroupSnapshot, assignments: dict[MemberId, Assignment]) -> None:
    if len(assignments) > 1:
        first, second = sorted(assignments)[:2]
        shared = assignments[first].active
        assignments[second] = replace(assignments[second], active=assignments[second].active | shared)


def lose_a_task(snapshot: GroupSnapshot, assignments: dict[MemberId, Assignment]) -> None:
    member = min(assignments)
    active = assignments[member].active
    assignments[member] = replace(assignments[member], active=active - {min(active, default=None)})


def give_to_those_who_leave(snapshot: GroupSnapshot, assignments: dict[MemberId, Assignment]) -> None:
    for member, said in snapshot.members.items():
        if said.leaving:
            assignments[member] = replace(assignments[member], standbys=frozenset(snapshot.tasks))


@pytest.mark.parametrize(
    ("breaking", "complaint"),
    [
        (give_to_unready_learners, "not ready"),
        (give_one_task_to_two, "I1"),
        (lose_a_task, "has no owner"),
        (give_to_those_who_leave, "I7"),
    ],
)
def test_a_broken_assignor_is_found(breaking: Breaking, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the rule, and the one command that plays it again."""
    monkeypatch.setattr(leader, "assign", broken_assignor(breaking))
    failure = first_failure(complaint)
    assert "replay: python -m tests.sim --seed" in failure


def test_tasks_that_move_in_every_round_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that shuffles without end never comes to rest."""

    def shuffle(snapshot: GroupSnapshot, assignments: dict[MemberId, Assignment]) -> None:
        for member, given in list(assignments.items()):
            assignments[member] = replace(given, rejoin=True)

    monkeypatch.setattr(leader, "assign", broken_assignor(shuffle))
    assert first_failure("not at rest")


def test_a_leader_that_ignores_what_the_last_one_published_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither deadlines nor the workers to fence would outlive the leader."""

    def forgetful(*arguments: object, recall: object, **options: object) -> leader.Leader:
        return leader.Leader(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(world, "Leader", forgetful)
    assert first_failure("I9")


def test_a_worker_that_stops_everything_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all tasks had to stop for every round."""
    monkeypatch.setattr(
        loop, "to_suspend", lambda tasks, _: sorted(t for t, v in tasks.items() if v.state.value == "running")
    )
    assert first_failure("I5")


def test_a_worker_that_keeps_tasks_it_has_handed_over_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It calls a task suspended, and processes it all the same."""
    monkeypatch.setattr(loop, "to_suspend", lambda tasks, being_learned: [])
    honest = loop.subscription

    def lying(*arguments: object, **options: object) -> Subscription:
        said = honest(*arguments, **options)  # type: ignore[arg-type]
        return replace(said, active=frozenset(), suspended=said.active | said.suspended)

    monkeypatch.setattr(loop, "subscription", lying)
    assert first_failure("I1")


def test_forgetting_an_assignment_that_the_loop_has_not_seen_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a busy loop has yet to act on belongs to its worker all the same."""
    monkeypatch.setattr(claims, "with_unapplied", lambda said, unapplied: said)
    assert first_failure("I1")


def test_a_codec_that_drops_something_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members' metadata are bytes on their way: what is not written is not known."""
    written = membership.encode_subscription

    def without_suspended(said: Subscription) -> bytes:
        return written(replace(said, suspended=frozenset[TaskId]()))

    monkeypatch.setattr(membership, "encode_subscription", without_suspended)
    assert first_failure("I10")
