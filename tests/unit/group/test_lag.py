"""What `kstreams-worker lag` makes of offsets and of the broker's description of a group."""

from __future__ import annotations

from assignor.model import Assignment, InstanceId, Subscription, TaskId, WorkerId
from kstreams_worker.group.events import GroupDescription, MemberDescription
from kstreams_worker.group.lag import (
    MemberLag,
    PartitionLag,
    member_lags,
    partition_lags,
    read_partitions,
    task_lags,
)


def member(number: int, *active: TaskId, sources: dict[int, tuple[str, ...]] | None = None) -> MemberDescription:
    said = Subscription(WorkerId(InstanceId(bytes([number] * 16)), 0), bytes(8), name=f"host-{number}")
    given = Assignment(active=frozenset(active), sources=sources or {})
    return MemberDescription(f"m{number}", f"client-{number}", f"/10.0.0.{number}", None, said, given)


SOURCES = {0: ("orders",), 1: ("orders-by-day",)}
GROUP = GroupDescription(
    "app",
    "Stable",
    "stream",
    (member(1, TaskId(0, 0), TaskId(1, 0), sources=SOURCES), member(2, TaskId(0, 1))),
)
EMPTY = GroupDescription("app", "Empty", "stream", ())


def test_every_partition_of_a_running_task_counts_and_no_other_topic() -> None:
    """Also those without a commit, but none that does not exist, and no offsets that an older topology left."""
    found = read_partitions(GROUP, [("orders", 0), ("old", 0)], {"orders": 2, "old": 1})
    assert found == {("orders", 0), ("orders", 1)}


def test_of_a_stopped_group_all_that_has_offsets_counts() -> None:
    """Nobody tells which topics it reads."""
    found = read_partitions(EMPTY, [("orders", 0), ("old", 3)], {"orders": 2, "old": 1})
    assert found == {("orders", 0)}


def test_lag_by_partition_and_by_member() -> None:
    """From the commit, or from the first record that is left, whichever is later."""
    ends = {("orders", 0): 50, ("orders", 1): 20, ("orders-by-day", 0): 8}
    begins = {("orders", 0): 10, ("orders", 1): 15}
    lags = partition_lags(GROUP, {("orders", 0): 40, ("orders-by-day", 0): 9}, begins, ends)
    assert lags == [
        PartitionLag("orders", 0, "0_0", "host-1/0", 40, 50, 10),
        PartitionLag("orders", 1, "0_1", "host-2/0", None, 20, 5),
        PartitionLag("orders-by-day", 0, "1_0", "host-1/0", 9, 8, 0),
    ]
    assert member_lags(lags) == [MemberLag("host-1/0", 2, 10), MemberLag("host-2/0", 1, 5)]


def test_a_task_is_behind_in_all_its_inputs_together() -> None:
    joined = GroupDescription("app", "Stable", "stream", (member(1, TaskId(0, 0), sources={0: ("orders", "prices")}),))
    ends = {("orders", 0): 50, ("prices", 0): 5}
    assert task_lags(partition_lags(joined, {("orders", 0): 40}, {}, ends)) == {"0_0": 15}
    assert task_lags(partition_lags(EMPTY, {}, {}, ends)) == {}


def test_a_stopped_group_has_lag_and_no_readers() -> None:
    lags = partition_lags(EMPTY, {("orders", 0): 40}, {("orders", 0): 0}, {("orders", 0): 50})
    assert lags == [PartitionLag("orders", 0, None, None, 40, 50, 10)]
    assert member_lags(lags) == []
