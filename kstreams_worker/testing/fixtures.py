"""A pytest plugin with a real Kafka: the fixtures `kafka` (one node) and `kafka_cluster` (three nodes).

pytest finds it by itself once kstreams-worker is installed. Nothing is started until a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kstreams_worker.testing.broker import RunningKafka

CLUSTER_NODES = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("kstreams-worker").addoption(
        "--kafka-broker",
        choices=("auto", "docker", "embedded"),
        default="auto",
        help="where the fixture 'kafka' runs its broker: in a container, on this machine's Java, or whichever works",
    )


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[RunningKafka]:
    """A Kafka of one node, shared by all tests of the session: use `unique_name` for topics and groups."""
    from kstreams_worker.testing.broker import running_kafka  # noqa: PLC0415 - heavy, and only for tests that use it

    with running_kafka(request.config.getoption("--kafka-broker")) as running:
        yield running


@pytest.fixture(scope="module")
def kafka_cluster() -> Iterator[RunningKafka]:
    """A Kafka of three nodes, to be stopped, killed and started through `.embedded`. A test leaves all of them up.

    It never runs in containers, since tests of this kind reach for the processes.
    """
    from kstreams_worker.testing.broker import embedded_kafka  # noqa: PLC0415 - heavy, and only for tests that use it

    with embedded_kafka(CLUSTER_NODES) as running:
        yield running
