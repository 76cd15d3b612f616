"""process(): a user's own step, with stores, the record's place, and timers by stream time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kstreams_worker import Processor, ProcessorContext, RecordError, StreamsBuilder
from kstreams_worker.testing.driver import TestRecord, TopologyTestDriver

Pairs = Callable[..., list[tuple[Any, Any]]]
Run = Callable[..., list[TestRecord]]


class FirstOnly(Processor):
    """Passes on the first record of each key."""

    def process(self, key: Any, value: Any) -> None:
        seen = self.context.store("seen")
        if seen.get(key) is None:
            seen.put(key, value)
            self.context.forward(key, value)


def with_seen(builder: StreamsBuilder) -> None:
    builder.add_state_store("seen", key=str, value=int)


def test_a_processor_class_with_a_store(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        with_seen(builder)
        builder.stream("in", key=str, value=int).process(FirstOnly, stores=["seen"], key=str, value=int).to("out")

    assert pairs(build, [("a", 1), ("b", 2), ("a", 3)]) == [("a", 1), ("b", 2)]


def test_a_function_of_key_value_and_context(run: Run) -> None:
    def twice(key: str, value: int, context: ProcessorContext) -> None:
        context.forward(key, value)
        context.forward(key + "'", value + 1, context.timestamp_ms + 1)

    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=int).process(twice, key=str, value=int).to("out")

    assert run(build, [("a", 1, 10)]) == [TestRecord("a", 1, 10), TestRecord("a'", 2, 11)]


def test_each_task_has_its_own_processor() -> None:
    made = []

    class Counted(FirstOnly):
        def __init__(self) -> None:
            made.append(self)

    builder = StreamsBuilder()
    with_seen(builder)
    builder.stream("in", key=str, value=int).process(Counted, stores=["seen"], key=str, value=int).to("out")
    with TopologyTestDriver(builder.build(), partitions=2) as driver:
        driver.input_topic("in").pipe("a", 1, partition=0)
        driver.input_topic("in").pipe("a", 2, partition=1)
        assert driver.output_topic("out").read_pairs() == [("a", 1), ("a", 2)]
    assert len(made) == 2


def test_the_place_of_the_record() -> None:
    places = []

    def note(key: str, value: int, context: ProcessorContext) -> None:
        places.append((context.topic, context.partition, context.offset, context.timestamp_ms, context.headers))

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).filter(lambda key, value: value > 0).process(note)
    with TopologyTestDriver(builder.build(), partitions=4) as driver:
        source = driver.input_topic("in")
        source.pipe("a", 0, partition=3)
        source.pipe("a", 1, partition=3, timestamp_ms=7, headers=[("h", b"1")])
    assert places == [("in", 3, 1, 7, [("h", b"1")])]


def test_the_place_of_the_record_when_others_of_the_batch_were_skipped() -> None:
    offsets = []
    builder = StreamsBuilder()
    builder.stream("in", value=str).process(lambda key, value, context: offsets.append((value, context.offset)))
    with TopologyTestDriver(builder.build(), skip_undecodable=True) as driver:
        driver.input_topic("in", value=bytes).pipe_batch([(None, b"a"), (None, b"\xff"), (None, b"c")])
        assert driver.undecodable == [("in", 0, 1, "value")]
    assert offsets == [("a", 0), ("c", 2)]


def test_a_tables_value_has_no_place() -> None:
    places = []
    builder = StreamsBuilder()
    counts = builder.stream("in", key=str, value=int).group_by_key().count()
    counts.to_stream().process(lambda key, value, context: places.append((context.topic, context.offset)))
    with TopologyTestDriver(builder.build(), cached=True) as driver:
        driver.input_topic("in").pipe("a", 1)
        driver.commit()
    assert places == [(None, None)]


def test_reading_a_tables_store() -> None:
    looked_up = []

    def look_up(key: str, value: str, context: ProcessorContext) -> None:
        looked_up.append((context.store("names").get(key), context.store("names").get_with_timestamp(key)))

    builder = StreamsBuilder()
    builder.table("names", key=str, value=str, materialized="names")
    builder.stream("in", key=str, value=str).process(look_up, stores=["names"])
    topology = builder.build()
    assert len(topology.subtopologies) == 1
    with TopologyTestDriver(topology, cached=True) as driver:
        driver.input_topic("names").pipe("a", "Ann", timestamp_ms=5)
        driver.input_topic("in").pipe("a", "x")
        driver.input_topic("in").pipe("b", "x")
    assert looked_up == [("Ann", ("Ann", 5)), (None, None)]


def test_a_tables_store_cannot_be_written() -> None:
    builder = StreamsBuilder()
    builder.table("names", key=str, value=str, materialized="names")
    stream = builder.stream("in", key=str, value=str)
    stream.process(lambda key, value, context: context.store("names").put(key, value), stores=["names"])
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(RecordError, match="belongs to a table: a processor can only read it"),
    ):
        driver.input_topic("in").pipe("a", "x")


def test_a_store_that_was_not_named_is_not_given() -> None:
    builder = StreamsBuilder()
    with_seen(builder)
    stream = builder.stream("in", key=str, value=int)
    stream.process(FirstOnly, stores=["seen"])
    stream.process(lambda key, value, context: context.store("seen"))
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(RecordError, match="process\\(\\) was not given the store 'seen', only: none"),
    ):
        driver.input_topic("in").pipe("a", 1)


def test_a_store_reads_ranges_and_takes_the_records_timestamp() -> None:
    builder = StreamsBuilder()
    with_seen(builder)

    def write(key: str, value: int, context: ProcessorContext) -> None:
        store = context.store("seen")
        store.put(key, value)
        if value == 0:
            store.delete(key)

    builder.stream("in", key=str, value=int).process(write, stores="seen")
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input_topic("in")
        source.pipe_batch([("a", 1, 10), ("b", 2, 20)])
        driver.commit()
        source.pipe_batch([("c", 3, 30), ("b", 0, 40), ("d", 4, 50)])
        store = driver.store("seen")
        assert list(store.all()) == [("a", 1), ("c", 3), ("d", 4)]
        assert list(store.range("b", "d")) == [("c", 3)]
        assert list(store.range(backwards=True)) == [("d", 4), ("c", 3), ("a", 1)]
        assert store.get_with_timestamp("c") == (3, 30)
        assert store.approximate_num_entries() >= 3


class Ticking(Processor):
    """Forwards the stream time every 10 ms, and ends after two times."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.count = 0
        self.cancel = context.schedule(10, self.tick)

    def tick(self, stream_time_ms: int) -> None:
        self.count += 1
        self.context.forward("tick", stream_time_ms)
        if self.count == 3:
            self.cancel()

    def process(self, key: Any, value: Any) -> None:
        self.context.forward(key, value)


def test_timers_run_by_stream_time(run: Run) -> None:
    """At the first record, then at each multiple of the interval that a timestamp passes, once however many it passes."""

    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=int).process(Ticking, key=str, value=int).to("out")

    records = run(build, [("a", 1, 5), ("b", 2, 9), ("c", 3, 38), ("d", 4, 12), ("e", 5, 40), ("f", 6, 60)])
    assert [(record.key, record.timestamp_ms) for record in records] == [
        ("a", 5),
        ("tick", 5),
        ("b", 9),
        ("c", 38),
        ("tick", 38),
        ("d", 12),
        ("e", 40),
        ("tick", 40),
        ("f", 60),
    ]


def test_processors_are_closed_with_their_task() -> None:
    closed = []

    class Closing(FirstOnly):
        def close(self) -> None:
            closed.append(self)

    builder = StreamsBuilder()
    with_seen(builder)
    builder.stream("in", key=str, value=int).process(Closing, stores=["seen"])
    with TopologyTestDriver(builder.build()) as driver:
        driver.input_topic("in").pipe("a", 1)
        assert closed == []
    assert len(closed) == 1


def test_processors_share_a_store_within_a_task() -> None:
    builder = StreamsBuilder()
    with_seen(builder)
    for topic in ("in", "in2"):
        builder.stream(topic, key=str, value=int).process(FirstOnly, stores=["seen"], key=str, value=int).to("out")
    topology = builder.build()
    assert len(topology.subtopologies) == 1
    with TopologyTestDriver(topology) as driver:
        driver.input_topic("in").pipe("a", 1)
        driver.input_topic("in2").pipe("a", 2)
        assert driver.output_topic("out").read_pairs() == [("a", 1)]


def test_processors_in_a_row(pairs: Pairs) -> None:
    def double(key: str, value: int, context: ProcessorContext) -> None:
        context.forward(key, value * 2)

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=int).process(double, key=str, value=int)
        stream.process(double, key=str, value=int).to("out")

    assert pairs(build, [("a", 1), ("b", 2)]) == [("a", 4), ("b", 8)]
