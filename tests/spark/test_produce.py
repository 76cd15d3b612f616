"""Records written to a topic: all of them, each once, where Java's producer would put them, no sooner than due."""

import threading
from collections import Counter
from pathlib import Path

import pytest
from kafka.partitioner.default import murmur2
from pyspark.sql import SparkSession
from topics import Record, Topics

from kstreams_worker.errors import TopicError
from kstreams_worker.pipeline.access import KafkaAccess
from kstreams_worker.pipeline.files import FileRecords
from kstreams_worker.pipeline.generator import GeneratedOrders, OrderShape
from kstreams_worker.pipeline.produce import ProducePlan, ensure_topic, produce
from kstreams_worker.pipeline.source import RecordSource

SHAPE = OrderShape(seed=3, customers=100, products=10)


@pytest.fixture
def source(spark: SparkSession) -> GeneratedOrders:
    return GeneratedOrders(spark, SHAPE)


def contents(records: list[Record]) -> Counter[tuple[str | None, bytes | None]]:
    return Counter((record.key, record.value) for record in records)


def expected(source: RecordSource, first: int, count: int) -> Counter[tuple[str, bytes]]:
    return Counter((row["key"], row["value"].encode()) for row in source.stretch(first, count, 1).collect())


def test_two_runs_write_the_same_records(
    spark: SparkSession, access: KafkaAccess, topics: Topics, source: GeneratedOrders
) -> None:
    """Into topics of different partition counts, in one go and in two."""
    one, other = topics.create(partitions=2), topics.create(partitions=5)
    totals = produce(spark, source, access, ProducePlan(one, records=3_000))
    first = produce(spark, source, access, ProducePlan(other, records=1_100))
    rest = produce(spark, source, access, ProducePlan(other, records=1_900, first_index=first.next_index))
    assert (totals.records, first.next_index, rest.next_index) == (3_000, 1_100, 3_000)
    assert contents(topics.read(one)) == contents(topics.read(other)) == expected(source, 0, 3_000)


def test_records_are_partitioned_as_java_does(
    spark: SparkSession, access: KafkaAccess, topics: Topics, source: GeneratedOrders
) -> None:
    """By murmur2 of the key, so that topics written by other producers are co-partitioned."""
    topic = topics.create(partitions=7)
    produce(spark, source, access, ProducePlan(topic, records=500))
    records = topics.read(topic)
    assert len(records) == 500
    for record in records:
        assert record.key is not None
        assert record.partition == (murmur2(record.key.encode()) & 0x7FFFFFFF) % 7


def test_rate_is_kept_by_waiting(
    spark: SparkSession, access: KafkaAccess, topics: Topics, source: GeneratedOrders
) -> None:
    """Several windows of two tasks: all records, each once, none sooner than due."""
    topic, rate = topics.create(), 60_000.0
    totals = produce(spark, source, access, ProducePlan(topic, rate=rate, records=150_000))
    assert totals.records == 150_000
    assert not totals.stopped
    records = topics.read(topic)
    assert len({record.value for record in records}) == len(records) == 150_000
    times_ms = sorted(record.timestamp_ms for record in records)
    # Tasks wait every 5 ms, and times are whole milliseconds.
    dues_ms = (totals.start_ms + number * 1000 / rate - 7 for number in range(150_000))
    assert all(time_ms >= due_ms for time_ms, due_ms in zip(times_ms, dues_ms, strict=True))


def test_stop_finishes_what_was_begun(
    spark: SparkSession, access: KafkaAccess, topics: Topics, source: GeneratedOrders
) -> None:
    """The topic then holds exactly the records up to `next_index`, and a second run can go on from there."""
    topic, stop = topics.create(), threading.Event()
    totals = produce(
        spark,
        source,
        access,
        ProducePlan(topic, rate=2_000, first_index=10),
        stop=stop,
        on_progress=lambda _: stop.set(),
    )
    assert totals.stopped
    assert totals.records >= 2_000
    assert totals.next_index == 10 + totals.records
    assert contents(topics.read(topic)) == expected(source, 10, totals.records)


def test_stop_before_the_start_writes_nothing(
    spark: SparkSession, access: KafkaAccess, topics: Topics, source: GeneratedOrders
) -> None:
    """And says so."""
    stop = threading.Event()
    stop.set()
    totals = produce(spark, source, access, ProducePlan(topics.create(), records=10), stop=stop)
    assert (totals.records, totals.next_index, totals.stopped) == (0, 0, True)


@pytest.mark.parametrize("rate", [None, 40.0])
def test_files_are_written_to_their_end(
    spark: SparkSession, access: KafkaAccess, topics: Topics, tmp_path: Path, rate: float | None
) -> None:
    """At a rate or not, from any record on; no more than there are."""
    for part in range(2):
        lines = [f'{{"customer":"c{number % 3}","n":{number}}}' for number in range(part * 50, part * 50 + 50)]
        (tmp_path / f"{part}.json").write_text("\n".join(lines))
    topic = topics.create()
    source = FileRecords(spark, str(tmp_path), "json")
    totals = produce(spark, source, access, ProducePlan(topic, records=1_000, rate=rate, first_index=20))
    wanted = expected(source, 20, 80)
    source.close()
    assert (totals.records, totals.next_index) == (80, 100)
    assert contents(topics.read(topic)) == wanted


def test_topic_is_created_or_found(access: KafkaAccess, topics: Topics) -> None:
    """With the partitions asked for; anything else is refused in one line."""
    there = topics.create(partitions=3)
    assert ensure_topic(access, there) == 3
    assert ensure_topic(access, there, 3) == 3
    with pytest.raises(TopicError, match="3 partitions, not 4"):
        ensure_topic(access, there, 4)
    with pytest.raises(TopicError, match="--partitions"):
        ensure_topic(access, f"{there}-new")
    assert ensure_topic(access, f"{there}-new", 2) == 2
