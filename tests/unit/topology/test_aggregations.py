"""count, reduce and aggregate: every update when forwarded at once, the newest per commit when cached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kstreams_worker import KGroupedStream, KTable, Materialized, StreamsBuilder
from kstreams_worker.testing.driver import TestRecord, TopologyTestDriver

Run = Callable[..., list[TestRecord]]


def collect(key: str, value: int, aggregate: list[int]) -> list[int] | None:
    """Changes the aggregate in place; a negative value deletes it."""
    if value < 0:
        return None
    aggregate.append(value)
    return aggregate


AGGREGATIONS: dict[str, Callable[[KGroupedStream], KTable]] = {
    "count": lambda grouped: grouped.count(materialized="store"),
    "reduce": lambda grouped: grouped.reduce(lambda aggregate, value: aggregate + value, materialized="store"),
    "aggregate": lambda grouped: grouped.aggregate(list, collect, value="json", materialized="store"),
}
RECORDS = [("a", 1, 10), ("b", 2, 20), ("a", 3, 5), (None, 4, 30), ("a", None, 40)]
UPDATES = {
    "count": [("a", 1, 10), ("b", 1, 20), ("a", 2, 10)],
    "reduce": [("a", 1, 10), ("b", 2, 20), ("a", 4, 10)],
    "aggregate": [("a", [1], 10), ("b", [2], 20), ("a", [1, 3], 10)],
}


def topology(kind: str) -> Any:
    builder = StreamsBuilder()
    AGGREGATIONS[kind](builder.stream("in", key=str, value=int).group_by_key()).to_stream().to("out")
    return builder.build()


@pytest.fixture(params=AGGREGATIONS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def cached(kind: str) -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(topology(kind), cached=True) as driver:
        yield driver


def test_every_update_goes_on_when_nothing_is_cached(kind: str) -> None:
    """With the largest timestamp of the records in it; null keys and null values are ignored."""
    with TopologyTestDriver(topology(kind)) as driver:
        driver.input_topic("in").pipe_batch(RECORDS)
        assert driver.output_topic("out").read_all() == [TestRecord(*update) for update in UPDATES[kind]]


def test_the_newest_of_each_key_goes_on_at_commit_when_cached(kind: str, cached: TopologyTestDriver) -> None:
    out = cached.output_topic("out")
    cached.input_topic("in").pipe_batch(RECORDS)
    assert out.read_all() == []
    cached.commit()
    newest = {key: TestRecord(key, value, time) for key, value, time in UPDATES[kind]}
    assert out.read_all() == list(newest.values())
    cached.commit()
    assert out.read_all() == []


def test_state_carries_on_after_a_commit(kind: str, cached: TopologyTestDriver) -> None:
    for record in RECORDS:
        cached.input_topic("in").pipe_batch([record])
        cached.commit()
    assert cached.output_topic("out").read_all() == [TestRecord(*update) for update in UPDATES[kind]]
    assert cached.store("store").get_with_timestamp("a") == UPDATES[kind][2][1:]


def test_an_aggregator_that_returns_none_deletes_the_key(run: Run) -> None:
    def build(builder: StreamsBuilder) -> None:
        AGGREGATIONS["aggregate"](builder.stream("in", key=str, value=int).group_by_key()).to_stream().to("out")

    records = run(build, [("a", 1, 10), ("a", -1, 20), ("a", 2, 15)])
    assert records == [TestRecord("a", [1], 10), TestRecord("a", None, 20), TestRecord("a", [2], 15)]


def test_a_deleted_key_goes_on_as_a_tombstone_when_cached() -> None:
    with TopologyTestDriver(topology("aggregate"), cached=True) as driver:
        driver.input_topic("in").pipe_batch([("a", 1), ("a", -1)])
        driver.commit()
        assert driver.output_topic("out").read_pairs() == [("a", None)]
        assert driver.store("store").get("a") is None


def test_a_table_that_is_not_cached_forwards_at_once_beside_one_that_is() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    grouped.count(materialized=Materialized("now", cached=False)).to_stream().to("now")
    grouped.count(materialized="later").to_stream().to("later")
    with TopologyTestDriver(builder.build(), cached=True) as driver:
        driver.input_topic("in").pipe_batch([("a", 1), ("a", 1)])
        assert driver.output_topic("now").read_pairs() == [("a", 1), ("a", 2)]
        assert driver.output_topic("later").read_pairs() == []
        driver.commit()
        assert driver.output_topic("now").read_pairs() == []
        assert driver.output_topic("later").read_pairs() == [("a", 2)]


@pytest.mark.parametrize("cached", [False, True])
def test_an_aggregation_of_an_aggregation_is_flushed_in_order(cached: bool) -> None:
    """The second store of the same task sees what the first one's flush passes on."""
    builder = StreamsBuilder()
    counts = builder.stream("in", key=str, value=int).group_by_key().count(materialized="first")
    counts.to_stream().group_by_key().reduce(max, materialized="second").to_stream().to("out")
    topology = builder.build()
    assert len(topology.subtopologies) == 1
    with TopologyTestDriver(topology, cached=cached) as driver:
        driver.input_topic("in").pipe_batch([("a", 0), ("a", 0), ("b", 0)])
        driver.commit()
        assert driver.output_topic("out").read_latest() == {"a": 2, "b": 1}


@pytest.mark.parametrize("cached", [False, True])
def test_group_by_goes_through_a_repartition_topic(cached: bool) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.group_by(lambda key, value: value, key=str).count(materialized="words").to_stream().to("out")
    topology = builder.build()
    first, second = topology.subtopologies
    assert [topic.topic("app") for topic in first.repartition_sinks] == ["app-words-repartition"]
    assert second.repartition_sources == first.repartition_sinks
    with TopologyTestDriver(topology, cached=cached, partitions=4) as driver:
        driver.input_topic("in").pipe_batch([("1", "x"), ("2", "y"), ("3", "x"), ("4", None)])
        driver.commit()
        assert driver.output_topic("out").read_latest() == {"x": 2, "y": 1}


def test_one_named_repartition_topic_serves_all_aggregations_of_a_group() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by(lambda key, value: value, key=str, name="words")
    grouped.count(materialized="a").to_stream().to("out")
    grouped.reduce(lambda aggregate, value: aggregate + value, materialized="b").to_stream().to("long")
    topology = builder.build()
    assert [len(sub.stores) for sub in topology.subtopologies] == [0, 2]
    with TopologyTestDriver(topology) as driver:
        driver.input_topic("in").pipe_batch([("1", "x"), ("2", "x")])
        assert driver.output_topic("out").read_latest() == {"x": 2}
        assert driver.output_topic("long").read_latest() == {"x": "xx"}


def test_repartition_drops_null_keys_and_spreads_the_rest() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int).select_key(lambda key, value: value, key=int)
    stream.repartition(partitions=3, name="spread").to("out")
    topology = builder.build()
    assert topology.subtopologies[1].repartition_sources[0].partitions == 3
    with TopologyTestDriver(topology) as driver:
        driver.input_topic("in").pipe_batch([("a", 1), ("b", None), ("c", 2)])
        assert sorted(driver.output_topic("out").read_pairs()) == [(1, 1), (2, 2)]
