"""What the Spark tests share: one session for all of them (it takes seconds to start), and a way to Kafka and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from topics import Topics

    from kstreams_worker.pipeline.access import KafkaAccess
    from kstreams_worker.testing.broker import RunningKafka

# PySpark leaves closing the sockets that results come through to the garbage collector.
PYSPARK_LEAK = "ignore:unclosed <socket:ResourceWarning"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Every test in this folder runs Spark."""
    item.add_marker(pytest.mark.spark)
    item.add_marker(pytest.mark.filterwarnings(PYSPARK_LEAK))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with four slots, so that two windows of two tasks fit."""
    from kstreams_worker.pipeline.session import spark_session

    # Nothing here runs long enough for Java's second compiler to pay.
    options = {"spark.driver.memory": "768m", "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"}
    with spark_session("local[4]", options) as session:
        yield session


@pytest.fixture(scope="session")
def access(kafka: RunningKafka) -> KafkaAccess:
    """The broker of the session."""
    from kstreams_worker.pipeline.access import KafkaAccess

    return KafkaAccess.to(kafka.bootstrap_servers)


@pytest.fixture
def topics(kafka: RunningKafka) -> Topics:
    """Writes and reads records without Spark."""
    from topics import Topics

    return Topics(kafka)
