"""What holds for every snapshot, even for one that contradicts itself."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from sim.invariants import violations
from snapshots import snapshots

from assignor.assign import assign
from assignor.model import AssignmentError, GroupSnapshot


@given(snapshots())
@settings(max_examples=150, deadline=None)
def test_no_round_breaks_an_invariant(snapshot: GroupSnapshot) -> None:
    """Members that claim the same task, forgotten owners, wrong memories: no task ends up with two owners, none is lost."""
    assert violations(snapshot, assign(snapshot)) == []


@given(snapshots(mixed_topologies=True))
@settings(max_examples=80, deadline=None)
def test_members_with_another_topology_are_refused_and_their_tasks_held(snapshot: GroupSnapshot) -> None:
    """Either side of a topology mismatch may be in the majority; the other side gets an error and no tasks."""
    result = assign(snapshot)
    refused = {m for m, each in result.assignments.items() if each.error is AssignmentError.TOPOLOGY_MISMATCH}
    assert len({snapshot.members[m].topology for m in snapshot.members.keys() - refused}) == 1
    assert all(not result.assignments[m].active for m in refused)
    group = next(snapshot.members[m].topology for m in snapshot.members.keys() - refused)
    if snapshot.topology in (b"", group):
        assert violations(snapshot, result) == []


@given(snapshots(mixed_topologies=True), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_order_of_members_does_not_matter(snapshot: GroupSnapshot, dice: random.Random) -> None:
    """The same snapshot with members, tasks and memory in another order gives the same result, decisions included."""

    def shuffled(mapping: dict) -> dict:
        items = list(mapping.items())
        dice.shuffle(items)
        return dict(items)

    memory = snapshot.memory
    other = GroupSnapshot(
        shuffled(snapshot.members),
        shuffled(snapshot.tasks),
        snapshot.settings,
        type(memory)(shuffled(memory.participants), shuffled(memory.owners), shuffled(memory.leaving_deadlines_ms)),
        snapshot.now_ms,
        snapshot.topology,
    )
    assert assign(other) == assign(snapshot)
