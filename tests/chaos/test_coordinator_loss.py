"""A cluster of three loses the node that coordinates the group: another one takes over, and the workers find it."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from harness.application import application

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

OFFSETS_TOPIC = "__consumer_offsets"


def coordinator_of(kafka: RunningKafka, group: str) -> int:
    """The node id of the group's coordinator: it leads the partition of the offsets topic that the group's name hashes to.

    The admin client tells it of groups of protocol type `consumer` only.
    """
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    partitions = admin.list_topics(OFFSETS_TOPIC, timeout=30).topics[OFFSETS_TOPIC].partitions
    hashed = functools.reduce(lambda value, character: (31 * value + ord(character)) % 2**32, group, 0)
    return partitions[min(hashed, 2**32 - hashed) % len(partitions)].leader


def test_a_lost_group_coordinator_costs_no_record(kafka_cluster: RunningKafka, tmp_path: Path) -> None:
    """kill -9 of the node, and with it of a third of the partitions' leaders. Later it comes back."""
    broker = kafka_cluster.embedded
    assert broker is not None
    with application(kafka_cluster, tmp_path) as app:
        app.feeder.burst(5_000).start()
        first, second = app.start(), app.start()
        app.until_balanced(first, second)
        app.until_counted()

        lost = coordinator_of(kafka_cluster, app.id)
        broker.kill_node(lost)
        try:
            app.until(lambda: coordinator_of(kafka_cluster, app.id) != lost, "another node coordinates the group")
            app.until_counted(3_000)
            third = app.start()
            app.until_balanced(first, second, third)
        finally:
            broker.start_node(lost)
        app.finish()
