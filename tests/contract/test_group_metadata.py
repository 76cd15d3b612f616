"""The bytes with which a transaction commits offsets as a member of the group are librdkafka's own form."""

from __future__ import annotations

from confluent_kafka import Consumer

from kstreams_worker.group.events import GroupGeneration
from kstreams_worker.io.transactions import group_metadata


def test_it_equals_what_the_installed_client_writes() -> None:
    """A consumer that has not joined writes generation -1 and an empty member id: ours must be the same bytes."""
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "app"})
    try:
        theirs = bytes(consumer.consumer_group_metadata())
    finally:
        consumer.close()
    assert group_metadata("app", GroupGeneration(-1, "")) == theirs


def test_it_equals_what_the_installed_client_writes_for_a_static_member() -> None:
    """With group.instance.id the flag byte and the id follow."""
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "app", "group.instance.id": "pod-0"})
    try:
        theirs = bytes(consumer.consumer_group_metadata())
    finally:
        consumer.close()
    assert group_metadata("app", GroupGeneration(-1, "", "pod-0")) == theirs
