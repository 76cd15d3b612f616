"""Arbitrary snapshots: also such as no group of well-behaved members would ever show."""

from __future__ import annotations

from hypothesis import strategies as st

from assignor.model import (
    AssignorSettings,
    CopyState,
    GroupSnapshot,
    InstanceId,
    LagRecords,
    LeaderMemory,
    MemberId,
    Subscription,
    TaskId,
    WorkerId,
)

TOPOLOGIES = (b"topology", b"another.")


def instance(number: int) -> InstanceId:
    return InstanceId(number.to_bytes(16, "big"))


tasks = st.builds(TaskId, st.integers(0, 2), st.integers(0, 7))
workers = st.builds(WorkerId, st.integers(0, 4).map(instance), st.integers(0, 2))
copy_states = st.builds(CopyState, st.integers(0, 20).map(LagRecords), st.booleans())
copies = st.dictionaries(tasks, copy_states, max_size=5)


@st.composite
def subscriptions(draw: st.DrawFn, topologies: st.SearchStrategy[bytes]) -> Subscription:
    """What one member says, free of contradictions within itself."""
    active = draw(st.frozensets(tasks, max_size=8))
    suspended = draw(st.frozensets(tasks, max_size=4)) - active
    learners = {task: state for task, state in draw(copies).items() if task not in active | suspended}
    standbys = {task: state for task, state in draw(copies).items() if task not in active | suspended | learners.keys()}
    leaving = draw(st.integers(0, 3)) == 0
    return Subscription(
        worker=draw(workers),
        topology=draw(topologies),
        capacity=draw(st.integers(1, 4)),
        active=active,
        suspended=suspended,
        learners=learners,
        standbys=standbys,
        dormant=draw(copies),
        leaving=leaving,
        leave_timeout_ms=draw(st.none() | st.integers(0, 5000)) if leaving else None,
    )


@st.composite
def snapshots(draw: st.DrawFn, *, mixed_topologies: bool = False) -> GroupSnapshot:
    """Members that contradict each other, a memory that may be wrong, tasks that not all members know."""
    topologies = st.sampled_from(TOPOLOGIES) if mixed_topologies else st.just(TOPOLOGIES[0])
    said = draw(st.lists(subscriptions(topologies), min_size=1, max_size=6))
    members = {MemberId(f"m{index}"): each for index, each in enumerate(said)}
    known = draw(st.dictionaries(tasks, st.booleans(), max_size=24))
    memory = LeaderMemory(
        participants=draw(st.dictionaries(st.sampled_from([*members, MemberId("gone")]), workers, max_size=3)),
        owners=draw(st.dictionaries(tasks, workers, max_size=10)),
        leaving_deadlines_ms=draw(st.dictionaries(st.sampled_from(list(members)), st.integers(0, 100), max_size=3)),
    )
    settings = AssignorSettings(draw(st.integers(0, 3)), draw(st.sampled_from((0.0, 0.2, 1.0))))
    return GroupSnapshot(
        members, known, settings, memory, now_ms=50, topology=TOPOLOGIES[0] if draw(st.booleans()) else b""
    )
