"""Brokers that only these tests need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kstreams_worker.devbroker.embedded import EmbeddedBroker
from kstreams_worker.testing.broker import RunningKafka


@pytest.fixture(scope="module")
def strict_kafka() -> Iterator[RunningKafka]:
    """A broker that looks at access rights: everybody may do what no rule is about."""
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with EmbeddedBroker(1, properties=properties) as broker:
        yield RunningKafka(broker.bootstrap_servers, broker)
