"""What was read ahead is shared out fairly, in each partition's order, and nothing is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kstreams_worker.io.read_ahead import ReadAhead
from kstreams_worker.topology.records import Partition

A, B, C = (("input", number) for number in range(3))


def filled(**sizes: int) -> ReadAhead[int]:
    ahead: ReadAhead[int] = ReadAhead()
    for name, size in sizes.items():
        ahead.add({"a": A, "b": B, "c": C}[name], list(range(size)))
    return ahead


def sizes(taken: list[tuple[Partition, list[int]]]) -> dict[Partition, int]:
    return {partition: len(items) for partition, items in taken}


def test_a_backlog_does_not_keep_others_waiting() -> None:
    """The short queue is taken whole, and the long one gets the rest."""
    ahead = filled(a=10_000, b=7)
    assert sizes(ahead.take(100)) == {B: 7, A: 93}
    assert ahead.size == 10_000 - 93
    assert A in ahead
    assert B not in ahead


def test_backlogs_share_alike() -> None:
    assert sizes(filled(a=1_000, b=2_000, c=3_000).take(300)) == {A: 100, B: 100, C: 100}


def test_partitions_take_turns_when_there_is_not_one_for_each() -> None:
    """With slow functions a turn is a single record."""
    ahead = filled(a=2, b=2, c=2)
    turns = [ahead.take(1) for _ in range(6)]
    assert turns == [[(A, [0])], [(B, [0])], [(C, [0])], [(A, [1])], [(B, [1])], [(C, [1])]]
    assert ahead.take(1) == []


def test_what_is_dropped_is_forgotten() -> None:
    ahead = filled(a=3, b=4)
    ahead.drop([A, C])
    assert ahead.size == 4
    assert sizes(ahead.take(10)) == {B: 4}
    assert ahead.partitions == 0


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 4), st.integers(1, 30)),
            st.tuples(st.just("take"), st.integers(1, 50), st.just(0)),
        ),
        max_size=30,
    )
)
def test_each_partition_keeps_its_order_and_nothing_is_lost(steps: list[tuple[str, int, int]]) -> None:
    ahead: ReadAhead[int] = ReadAhead()
    added: dict[Partition, int] = {}
    handed_out: dict[Partition, list[int]] = {}
    for step, number, count in steps:
        if step == "add":
            partition = ("input", number)
            start = added.get(partition, 0)
            ahead.add(partition, list(range(start, start + count)))
            added[partition] = start + count
            continue
        waiting = ahead.size
        taken = ahead.take(number)
        assert sum(sizes(taken).values()) == min(number, waiting), "as much as there is"
        assert len(sizes(taken)) == len(taken), "one list for each partition"
        for partition, items in taken:
            handed_out.setdefault(partition, []).extend(items)
    for partition, items in ahead.take(10_000):
        handed_out.setdefault(partition, []).extend(items)
    assert handed_out == {partition: list(range(count)) for partition, count in added.items()}
    assert ahead.size == 0
