"""A count per key, verified: the formats it may be in, and what else may be odd in a topic."""

from __future__ import annotations

import struct

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from topics import Row, Topics

from kstreams_worker.errors import TopicError, UsageError
from kstreams_worker.pipeline.access import KafkaAccess
from kstreams_worker.pipeline.checks.model import Check, OutputCheck
from kstreams_worker.pipeline.report import Comparison, Fault, OutputReport
from kstreams_worker.pipeline.verify import verify

INPUT: list[Row] = [("a", 1), ("b", 1), ("a", 2), (None, 1), ("c", 1), ("a", 3)]


def long(number: int) -> bytes:
    return struct.pack(">q", number)


class Counts:
    """Verifies outputs for the same small input."""

    def __init__(self, spark: SparkSession, access: KafkaAccess, topics: Topics) -> None:
        self._spark, self._access, self._topics = spark, access, topics

    def verify(self, rows: list[Row], partitions: int = 2, **options: object) -> OutputReport:
        names = {"input": self._topics.create("input"), "output": self._topics.create("output", partitions)}
        self._topics.write(names["input"], INPUT)
        self._topics.write(names["output"], rows)
        report = verify(self._spark, "count", self._access, topics=names, **options)
        assert (report.input_records, report.input_unreadable) == (len(INPUT), 1)
        return report.output(names["output"])


@pytest.fixture
def counts(spark: SparkSession, access: KafkaAccess, topics: Topics) -> Counts:
    return Counts(spark, access, topics)


def faults(output: OutputReport) -> dict[str, int]:
    return {fault.value: output.count(fault) for fault in Fault if output.count(fault)}


@pytest.mark.parametrize(
    ("parameters", "write"),
    [({}, long), ({"format": "json"}, lambda number: number), ({"format": "json"}, lambda number: {"count": number})],
    ids=["long", "json number", "json object"],
)
def test_counts_may_be_longs_or_json(counts: Counts, parameters: dict[str, str], write: object) -> None:
    """The last value of each key counts, the number of updates does not; records without a key are counted nowhere."""
    rows = [("a", write(1)), ("b", write(1)), ("c", write(1)), ("a", write(3))]
    output = counts.verify(rows, parameters=parameters)
    assert faults(output) == {}
    assert (output.expected, output.actual, output.records) == (3, 3, 4)


def test_deleted_key_is_missing(counts: Counts) -> None:
    """A tombstone as the last value takes the key away; deleting a key that should not be there mends it."""
    output = counts.verify([("a", long(3)), ("b", long(1)), ("b", None), ("c", long(1)), ("d", long(1)), ("d", None)])
    assert faults(output) == {"missing": 1}
    (example,) = output.examples
    assert (example.key, example.expected, example.actual) == ("b", "1", None)


def test_value_that_cannot_be_decoded_is_wrong(counts: Counts) -> None:
    """Even if a later one is right."""
    output = counts.verify([("a", b"3"), ("a", long(3)), ("b", long(1)), ("c", long(1))])
    assert faults(output) == {"wrong": 1}
    assert (output.examples[0].note, output.examples[0].actual) == ("cannot be decoded", "3")


def test_key_in_two_partitions_is_wrong(
    counts: Counts, topics: Topics, spark: SparkSession, access: KafkaAccess
) -> None:
    """Whoever reads one of them would see an old value."""
    names = {"input": topics.create("input"), "output": topics.create("output", partitions=2)}
    topics.write(names["input"], [("a", 1), ("a", 2)])
    for partition, number in ((0, 1), (1, 2)):
        row = spark.createDataFrame(
            [("a", bytearray(long(number)), partition)], "key string, value binary, partition int"
        )
        row.write.format("kafka").options(**access.spark_options, topic=names["output"]).save()
    output = verify(spark, "count", access, topics=names).outputs[0]
    assert faults(output) == {"wrong": 1}
    assert output.examples[0].note == "this key is in more than one partition"


def test_empty_topics_are_equal(spark: SparkSession, access: KafkaAccess, topics: Topics) -> None:
    """Nothing in, nothing out."""
    names = {"input": topics.create("input"), "output": topics.create("output")}
    report = verify(spark, "count", access, topics=names)
    assert report.ok
    assert (report.input_records, report.outputs[0].expected, report.outputs[0].actual) == (0, 0, 0)


def test_missing_topic_and_bad_format_are_refused(spark: SparkSession, access: KafkaAccess, topics: Topics) -> None:
    """In one line, with the name."""
    there = topics.create("input")
    with pytest.raises(TopicError, match="not-there"):
        verify(spark, "count", access, topics={"input": there, "output": "not-there"})
    with pytest.raises(UsageError, match="'xml'"):
        verify(spark, "count", access, topics={"input": there, "output": there}, parameters={"format": "xml"})


def test_own_check(spark: SparkSession, access: KafkaAccess, topics: Topics) -> None:
    """Any topology that Spark can recompute: here one that passes records on, compared as a whole."""
    same = OutputCheck(
        "copy",
        Comparison.MULTISET,
        expected=lambda records, _parameters: records,
        decode=lambda value, _parameters: value.cast("string"),
    )
    check = Check(
        "copy",
        "records as they are",
        "original",
        read=lambda records, _parameters: records.select(
            "key", fn.col("value").cast("string").alias("value"), "partition", "offset", fn.lit(True).alias("readable")
        ),
        outputs=(same,),
    )
    names = {"original": topics.create(), "copy": topics.create()}
    topics.write(names["original"], [("a", b"x"), ("a", b"x"), ("b", b"y"), (None, b"z")])
    topics.write(names["copy"], [("a", b"x"), ("b", b"y"), ("b", b"y"), (None, b"z")])
    output = verify(spark, check, access, topics=names).outputs[0]
    assert faults(output) == {"missing": 1, "doubled": 1}
