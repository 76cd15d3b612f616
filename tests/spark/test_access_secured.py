"""Spark's own clients get in where the brokers ask who it is, with the settings of everybody else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harness.secured import SCRAM, SecuredKafka, secured_kafka
from pyspark.sql import SparkSession

from kstreams_worker.config import Settings
from kstreams_worker.pipeline.access import KafkaAccess
from kstreams_worker.pipeline.generator import GeneratedOrders, OrderShape
from kstreams_worker.pipeline.produce import ProducePlan, produce
from kstreams_worker.pipeline.verify import verify

RECORDS = 300


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as running:
        yield running


@pytest.mark.parametrize("way", ["PLAIN", SCRAM, "certificate"])
def test_the_pipeline_writes_and_reads(spark: SparkSession, secured: SecuredKafka, way: str) -> None:
    """Nothing was counted, so every key is missing: both topics were read, and the input as it was written."""
    client = secured.with_certificate() if way == "certificate" else secured.with_password(way)
    access = KafkaAccess.of(Settings.load(None, env={}, overrides={"application.id": "pipeline", **client}))
    orders, counts = secured.plain.create_topic(partitions=2), secured.plain.create_topic(partitions=2)
    source = GeneratedOrders(spark, OrderShape(seed=3, customers=20, products=5))
    assert produce(spark, source, access, ProducePlan(orders, records=RECORDS)).records == RECORDS
    report = verify(spark, "count", access, topics={"input": orders, "output": counts})
    assert report.input_records == RECORDS
    output = report.output(counts)
    assert (output.expected > 0, output.actual, output.records) == (True, 0, 0)
