"""What holds for every snapshot, even for one that contradicts itself."""

from __future__ import annotations

from hypothesis import given, settings
from sim.invariants import violations
from snapshots import random_snapshot, seeds, shuffled

from assignor.assign import assign
from assignor.model import AssignmentError


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
