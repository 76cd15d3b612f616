"""Recomputes, from a topic's records, what a topology should have written, and compares it with what it has written.

The input is read up to its end as of the call, the outputs up to theirs, committed records only. Verify when the topology
has caught up and its input rests (`caught_up` waits for that): what is still on its way counts as missing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from kstreams_worker.errors import TopicError
from kstreams_worker.io.admin import Admin
from kstreams_worker.pipeline.access import KafkaAccess
from kstreams_worker.pipeline.checks import Check, check_named
from kstreams_worker.pipeline.compare import Compared, compare
from kstreams_worker.pipeline.failures import spark_errors
from kstreams_worker.pipeline.report import Guarantee, Report

EXAMPLES_MAX = 3

_CONSUMER_OPTIONS = {
    "kafka.isolation.level": "read_committed",
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "kafkaConsumer.pollTimeoutMs": "30000",
    "failOnDataLoss": "true",
}


def verify(
    spark: SparkSession,
    check: Check | str,
    access: KafkaAccess,
    *,
    topics: Mapping[str, str] | None = None,
    parameters: Mapping[str, str] | None = None,
    guarantee: Guarantee = "exactly_once_v2",
    examples_max: int = EXAMPLES_MAX,
) -> Report:
    """The report on all outputs of `check`. `topics` maps the check's names of topics to the real ones where they differ.

    `examples_max` is per output and kind of fault. Raises UsageError, TopicError for a missing topic, BrokerError,
    KStreamsError.
    """
    started = time.monotonic()
    check = check_named(check) if isinstance(check, str) else check
    parameters = check.with_defaults(parameters or {})
    names = check.topics(topics or {})
    # The outputs' ends are read after the input's: what the input up to there led to is in them.
    ends = _ends(access, list(names.values()))
    input_topic = names[check.input_topic]
    with spark_errors("cannot verify"):
        records = read_topic(spark, access, input_topic, ends[input_topic])
        all_input = check.read(records, parameters).persist()
        try:
            count = all_input.agg(fn.count("*").alias("all"), fn.count_if("readable").alias("readable")).collect()[0]
            readable = all_input.where("readable")
            outputs = tuple(
                compare(
                    Compared(
                        check=output,
                        parameters=parameters,
                        expected=output.expected(readable, parameters),
                        actual=read_topic(spark, access, names[output.name], ends[names[output.name]]),
                        input_topic=input_topic,
                        topic=names[output.name],
                        guarantee=guarantee,
                        examples_max=examples_max,
                    )
                )
                for output in check.outputs
            )
        finally:
            all_input.unpersist()
    return Report(
        check=check.name,
        guarantee=guarantee,
        input_topic=input_topic,
        input_records=count["all"],
        input_unreadable=count["all"] - count["readable"],
        outputs=outputs,
        elapsed_s=round(time.monotonic() - started, 3),
    )


def read_topic(spark: SparkSession, access: KafkaAccess, topic: str, ends: Mapping[int, int]) -> DataFrame:
    """The committed records of a topic from its beginning to `ends` (by partition), the same ones at each evaluation."""
    options = {
        **access.spark_options,
        **_CONSUMER_OPTIONS,
        "assign": json.dumps({topic: sorted(ends)}),
        "startingOffsets": "earliest",
        "endingOffsets": json.dumps({topic: {str(partition): end for partition, end in ends.items()}}),
        "minPartitions": str(max(len(ends), spark.sparkContext.defaultParallelism)),
    }
    return spark.read.format("kafka").options(**options).load()


def _ends(access: KafkaAccess, topics: list[str]) -> dict[str, dict[int, int]]:
    """End offsets of committed records, by topic and partition; asked for in the order of `topics`."""
    admin = Admin(access.admin, client_id="kstreams-pipeline-admin")
    counts = admin.partition_counts(topics)
    missing = [topic for topic in topics if topic not in counts]
    if missing:
        raise TopicError(
            f"topic(s) not found: {', '.join(missing)}; check the names, or whether the topology has been started"
        )
    ends: dict[str, dict[int, int]] = {}
    for topic in topics:
        partitions = [(topic, partition) for partition in range(counts[topic])]
        ends[topic] = {at[1]: end for at, end in admin.end_offsets(partitions, committed=True).items()}
    return ends
