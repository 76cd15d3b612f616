"""What holds for every snapshot, even for one that contradicts itself."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from sim.invariants import violations
from snapshots import random_snapshot, seeds, shuffled

from assignor.assign import assign
from assignor.model import (
    Assignment,
    AssignmentError,
    CopyState,
    GroupSnapshot,
    InstanceId,
    LagRecords,
    MemberId,
    RoundResult,
    TaskId,
    WorkerId,
)

ROUNDS_MAX = 12
"""More than any group takes whose members do as they are told."""


@given(seeds)
@settings(max_examples=500, deadline=None)
def test_no_round_breaks_an_invariant(seed: int) -> None:
    """Members that claim the same task, forgotten owners, wrong memories: no task ends up with two owners, none is lost."""
    snapshot = random_snapshot(seed)
    assert violations(snapshot, assign(snapshot)) == []


@given(seeds)
@settings(max_examples=300, deadline=None)
def test_members_with_another_topology_are_refused_and_their_tasks_held(seed: int) -> None:
    """Either side of a topology mismatch may be in the majority; the other side gets an error and no tasks."""
    snapshot = random_snapshot(seed, topologies=2)
    result = assign(snapshot)
    refused = {m for m, each in result.assignments.items() if each.error is AssignmentError.TOPOLOGY_MISMATCH}
    group = {snapshot.members[m].topology for m in snapshot.members.keys() - refused}
    assert len(group) == 1
    assert all(not result.assignments[m].active for m in refused)
    if snapshot.topology in (b"", *group):
        assert violations(snapshot, result) == []


@given(seeds)
@settings(max_examples=200, deadline=None)
def test_the_order_of_members_does_not_matter(seed: int) -> None:
    """The same snapshot with members, tasks and memory in another order gives the same result, decisions included."""
    snapshot = random_snapshot(seed, topologies=2)
    assert assign(shuffled(snapshot, seed)) == assign(snapshot)


@given(seeds)
@settings(max_examples=200, deadline=None)
def test_a_stable_group_stays_as_it_is(seed: int) -> None:
    """Members that do as they are told, with learners that get ready, soon get what they have, and then always."""
    snapshot = random_snapshot(seed)
    for _ in range(ROUNDS_MAX):
        result = assign(snapshot)
        if is_stable(snapshot, result):
            break
        snapshot = followed(snapshot, result)
    assert is_stable(snapshot, result)
    again = assign(replace(snapshot, memory=result.memory))
    assert unfenced(again) == unfenced(result)


@given(seeds)
@settings(max_examples=200, deadline=None)
def test_the_imbalance_never_rises(seed: int) -> None:
    """From round to round, while neither members nor tasks change: the measure that every planned move lowers."""
    snapshot = random_snapshot(seed)
    snapshot = followed(snapshot, assign(snapshot))
    before = None
    for _ in range(ROUNDS_MAX):
        result = assign(snapshot)
        tasks, after = stateful_imbalance(snapshot, result)
        if before is not None and before[0] == tasks:
            assert after <= before[1] + 1e-9
        before = tasks, after
        snapshot = followed(snapshot, result)


@given(seeds, st.booleans())
@settings(max_examples=200, deadline=None)
def test_an_order_that_is_taken_back_leaves_nothing_behind(seed: int, ready: bool) -> None:
    """Of a balanced group an instance is to leave, and then to stay, before any task has moved: nobody learns any more, and
    all is as it was, unless a learner that was ready took over and is none the worse."""
    snapshot = at_rest(random_snapshot(seed))
    before = {member: said.active for member, said in snapshot.members.items()}
    told = random.Random(seed).choice(sorted(snapshot.members))

    def tell(leaving: bool) -> GroupSnapshot:
        members = {**snapshot.members, told: replace(snapshot.members[told], leaving=leaving)}
        return replace(snapshot, members=members)

    snapshot = tell(leaving=True)
    snapshot = followed(snapshot, assign(snapshot), ready=ready)
    snapshot = tell(leaving=False)
    result = assign(snapshot)
    assert violations(snapshot, result) == []
    after = {member: given.active for member, given in result.assignments.items()}
    assert not any(given.learners for given in result.assignments.values())
    assert sorted(map(len, after.values())) == sorted(map(len, before.values()))
    assert ready or after == before


def at_rest(snapshot: GroupSnapshot) -> GroupSnapshot:
    """Its members, as many instances and all alike, with all tasks stateful and evenly shared, after as many rounds as that
    takes."""
    members = {
        member: replace(
            said,
            worker=WorkerId(InstanceId(member.encode().ljust(16, b"\0")), 0),
            capacity=1,
            leaving=False,
            leave_timeout_ms=None,
        )
        for member, said in snapshot.members.items()
    }
    tasks = dict.fromkeys(snapshot.tasks, True)
    evenly = replace(snapshot.settings, imbalance_percentage=0.0)
    snapshot = replace(snapshot, members=members, tasks=tasks, settings=evenly)
    for _ in range(ROUNDS_MAX):
        result = assign(snapshot)
        if is_stable(snapshot, result):
            return snapshot
        snapshot = followed(snapshot, result)
    raise AssertionError("it does not come to rest")


def unfenced(result: RoundResult) -> dict[MemberId, Assignment]:
    """The dead that a round tells of are dealt with by it, and not told of again."""
    return {member: replace(told, fence=frozenset()) for member, told in result.assignments.items()}


def is_stable(snapshot: GroupSnapshot, result: RoundResult) -> bool:
    """Whether everybody is told to keep what it has, nobody learns and nobody is asked to join again."""
    return all(
        (told.active, told.learners, told.standbys, told.rejoin)
        == (said.active | said.suspended, frozenset(), frozenset(said.standbys), False)
        for member, said in snapshot.members.items()
        for told in [result.assignments[member]]
    )


def followed(snapshot: GroupSnapshot, result: RoundResult, *, ready: bool = True) -> GroupSnapshot:
    """What the members say in the next round: learners are ready (or not), what is being learned is suspended, and the state
    of what was taken away stays on disk."""
    members = {
        member: replace(
            said,
            active=told.active - told.being_learned,
            suspended=told.being_learned,
            learners=dict.fromkeys(told.learners, CopyState(LagRecords(0), ready)),
            standbys=dict.fromkeys(told.standbys, CopyState(LagRecords(0))),
            dormant=dict.fromkeys(
                (said.active | said.suspended) - told.active - told.learners - told.standbys, CopyState(LagRecords(1))
            ),
        )
        for member, said in snapshot.members.items()
        for told in [result.assignments[member]]
    }
    return replace(snapshot, members=members, memory=result.memory)


def stateful_imbalance(snapshot: GroupSnapshot, result: RoundResult) -> tuple[frozenset[TaskId], float]:
    """The stateful tasks that are or will be with instances that stay, and the sum of load squared over capacity."""
    leaving = {said.worker.instance for said in snapshot.members.values() if said.leaving}
    capacity: Counter[InstanceId] = Counter()
    place: dict[TaskId, InstanceId] = {}
    for held in ("active", "learners"):
        for member, told in result.assignments.items():
            place |= dict.fromkeys(getattr(told, held), snapshot.members[member].worker.instance)
    for said in snapshot.members.values():
        capacity[said.worker.instance] = max(capacity[said.worker.instance], said.capacity)
    load = Counter(at for task, at in place.items() if snapshot.tasks.get(task) and at not in leaving)
    counted = frozenset(task for task, at in place.items() if snapshot.tasks.get(task) and at not in leaving)
    return counted, sum(load[at] ** 2 / capacity[at] for at in load)
