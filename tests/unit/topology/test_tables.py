"""Tables: newest values, tombstones, derived tables, and groups that rows join and leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kstreams_worker import KTable, StreamsBuilder
from kstreams_worker.testing.driver import TestRecord, TopologyTestDriver
from kstreams_worker.topology.table_runtime import forget_committed

Pairs = Callable[..., list[tuple[Any, Any]]]
Run = Callable[..., list[TestRecord]]


def table(builder: StreamsBuilder, materialized: str | None = None) -> KTable:
    return builder.table("in", key=str, value=int, materialized=materialized)


def test_a_table_nobody_names_keeps_nothing(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        table(builder).to_stream().to("out")
        assert builder.build().subtopologies[0].stores == ()

    records = [("a", 1), ("a", None), (None, 2), ("a", 1)]
    assert pairs(build, records) == [("a", 1), ("a", None), ("a", 1)]


def test_a_named_table_keeps_the_newest_value_with_its_own_timestamp() -> None:
    builder = StreamsBuilder()
    table(builder, "T").to_stream().to("out")
    with TopologyTestDriver(builder.build(), cached=True) as driver:
        driver.input_topic("in").pipe_batch([("a", 1, 20), ("b", 2, 30), ("a", 3, 10), ("b", None, 40)])
        driver.commit()
        assert driver.output_topic("out").read_all() == [TestRecord("a", 3, 10), TestRecord("b", None, 40)]
        assert list(driver.store("T").all()) == [("a", 3)]


@pytest.mark.parametrize("materialized", [None, "F"])
def test_a_row_that_is_filtered_out_is_deleted_downstream(pairs: Pairs, materialized: str | None) -> None:
    def build(builder: StreamsBuilder) -> None:
        small = table(builder).filter(lambda key, value: value < 10, materialized=materialized)
        small.to_stream().to("out")

    assert pairs(build, [("a", 1), ("a", 20), ("a", 2), ("a", None)]) == [("a", 1), ("a", None), ("a", 2), ("a", None)]


def test_filter_not_keeps_the_others(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        table(builder).filter_not(lambda key, value: value < 10).to_stream().to("out")

    assert pairs(build, [("a", 1), ("b", 20)]) == [("a", None), ("b", 20)]


@pytest.mark.parametrize("materialized", [None, "M"])
def test_map_values_passes_tombstones_on(pairs: Pairs, materialized: str | None) -> None:
    def build(builder: StreamsBuilder) -> None:
        mapped = table(builder).map_values(lambda key, value: key * value, value=str, materialized=materialized)
        mapped.to_stream().to("out")

    assert pairs(build, [("a", 2), ("a", None)]) == [("a", "aa"), ("a", None)]


def test_derived_tables_can_be_kept() -> None:
    builder = StreamsBuilder()
    kept = table(builder).filter(lambda key, value: value > 1, materialized="F")
    kept.map_values(lambda value: value * 10, value=int, materialized="M").to_stream().to("out")
    with TopologyTestDriver(builder.build(), cached=True) as driver:
        driver.input_topic("in").pipe_batch([("a", 1), ("b", 2), ("c", 3), ("c", None)])
        driver.commit()
        assert list(driver.store("F").all()) == [("b", 2)]
        assert list(driver.store("M").all()) == [("b", 20)]
        assert driver.output_topic("out").read_latest() == {"a": None, "b": 20, "c": None}


# Groups: rows are (region, amount) per customer; regions are counted and summed.

ROWS: list[list[tuple[str, list[Any] | None]]] = [
    [("ann", ["north", 10]), ("bob", ["north", 5]), ("cid", ["south", 1])],
    [("ann", ["south", 10]), ("bob", ["north", 6])],
    [("ann", ["south", 11]), ("ann", ["north", 2]), ("cid", None)],
    [("bob", None), ("dan", None), ("dan", ["west", 7]), ("dan", None)],
]


def expected(upto: int) -> dict[str, tuple[int, int]]:
    """Per region `(count, sum)`, recomputed from the rows that are left."""
    left: dict[str, list[Any]] = {}
    for customer, row in [row for batch in ROWS[:upto] for row in batch]:
        left.pop(customer, None)
        if row is not None:
            left[customer] = row
    regions: dict[str, tuple[int, int]] = {}
    for region, amount in left.values():
        count, total = regions.get(region, (0, 0))
        regions[region] = (count + 1, total + amount)
    return regions


def change(sign: int) -> Callable[[str, int, dict[str, int]], dict[str, int]]:
    def apply(region: str, amount: int, total: dict[str, int]) -> dict[str, int]:
        total["sum"] += sign * amount
        return total

    return apply


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("source", ["plain", "kept", "filtered", "mapped", "filter kept"])
def test_groups_follow_their_rows(cached: bool, partitions: int, source: str) -> None:
    """After each commit the groups are what the rows that are left say, however the rows came to be there."""
    builder = StreamsBuilder()
    rows = builder.table("in", key=str, value="json", materialized="rows" if source == "kept" else None)
    if source.startswith("filter"):
        rows = rows.filter(lambda key, row: row[1] >= 0, materialized="f" if "kept" in source else None)
    if source == "mapped":
        rows = rows.map_values(lambda row: [row[0], row[1]])
    groups = rows.group_by(lambda customer, row: (row[0], row[1]), key=str, value=int, name="regions")
    groups.count(materialized="counts").to_stream().to("counts")
    by_sum = rows.group_by(lambda customer, row: (row[0], row[1]), key=str, value=int)
    by_sum.aggregate(lambda: {"sum": 0}, change(1), change(-1), value="json", materialized="sums").to_stream().to(
        "sums"
    )
    by_reduce = rows.group_by(lambda customer, row: (row[0], row[1]), key=str, value=int)
    by_reduce.reduce(lambda total, amount: total + amount, lambda total, amount: total - amount).to_stream().to("red")

    totals: dict[str, dict[str, Any]] = {"counts": {}, "sums": {}, "red": {}}
    with TopologyTestDriver(builder.build(), cached=cached, partitions=partitions) as driver:
        for number, batch in enumerate(ROWS, start=1):
            driver.input_topic("in").pipe_batch(batch)
            driver.commit()
            for topic in totals:
                totals[topic] |= driver.output_topic(topic).read_latest()
            regions = expected(number)
            empty = dict.fromkeys(totals["counts"], (0, 0))
            assert {region: (count, totals["red"][region]) for region, count in totals["counts"].items()} == (
                empty | regions
            )
            assert {region: total["sum"] for region, total in totals["sums"].items()} == {
                region: total for region, (_, total) in (empty | regions).items()
            }


@pytest.mark.parametrize("cached", [False, True])
def test_groups_of_an_aggregate_that_is_changed_in_place(cached: bool) -> None:
    """The old value that is taken out of its group is the one that was put in, not the object as it is now."""
    builder = StreamsBuilder()

    def add(key: str, value: int, aggregate: dict[str, int]) -> dict[str, int]:
        aggregate["total"] += value
        return aggregate

    stream = builder.stream("in", key=str, value=int)
    totals = stream.group_by_key().aggregate(lambda: {"total": 0}, add, value="json", materialized="totals")
    by_size = totals.group_by(lambda key, total: (total["total"] // 10, key), key=int, value=str)
    by_size.count().to_stream().to("out")
    latest: dict[int, int] = {}
    with TopologyTestDriver(builder.build(), cached=cached) as driver:
        for records in ([("a", 5), ("b", 3)], [("a", 6)], [("a", 10), ("b", 1)]):
            driver.input_topic("in").pipe_batch(records)
            driver.commit()
            latest |= driver.output_topic("out").read_latest()
    assert latest == {0: 1, 1: 0, 2: 1}


def test_flushing_twice_before_a_commit_counts_nothing_twice() -> None:
    builder = StreamsBuilder()
    table(builder).group_by(lambda key, value: (value % 2, value), key=int, value=int).count().to_stream().to("out")
    with TopologyTestDriver(builder.build(), cached=True) as driver:
        source = driver.input_topic("in")
        source.pipe("a", 1)
        (task,) = driver._tasks.values()
        task.program.flush()
        driver._collect(task)
        source.pipe("a", 3)
        driver.commit()
        assert driver.output_topic("out").read_latest() == {1: 1}


def test_a_row_that_changes_within_its_group_is_one_update(pairs: Pairs) -> None:
    """The group is never seen without the row."""

    def build(builder: StreamsBuilder) -> None:
        groups = table(builder).group_by(lambda key, value: ("all", value), key=str, value=int)
        groups.reduce(lambda total, value: total + value, lambda total, value: total - value).to_stream().to("out")

    assert pairs(build, [("a", 1), ("b", 10), ("a", 2), ("b", None)]) == [
        ("all", 1),
        ("all", 11),
        ("all", 12),
        ("all", 2),
    ]


def test_old_values_are_forgotten_once_they_are_committed() -> None:
    before = {b"a": 1, b"b": 2}
    forget_committed(before, {b"b": [3, 0]})
    assert before == {b"b": 2}


def test_rows_without_a_group_are_left_out(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        groups = table(builder).group_by(lambda key, value: (value or None, value), key=int, value=int)
        groups.count().to_stream().to("out")

    assert pairs(build, [("a", 0), ("b", 7), ("b", 0)]) == [(7, 1), (7, 0)]
