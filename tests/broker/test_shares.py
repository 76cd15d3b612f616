"""Of partitions with a backlog and partitions without, all get their share of what a worker reads."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from kstreams_worker.io.consumer import AHEAD_RECORDS_MAX, QUEUED_RECORDS_MIN, RecordConsumer
from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(120)]

BACKLOG_RECORDS = 400_000
ROUNDS = 4
BETWEEN_MAX = 80_000
"""Records of the others that may come before one that was just written: what is read ahead, what the client has queued, and
what it has asked for before."""


def test_a_new_record_does_not_wait_for_a_backlog(kafka: RunningKafka) -> None:
    """After a takeover a worker has both. Counted in records, and so the same on a slow machine."""
    topic = kafka.create_topic(partitions=3)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5})
    for number in range(BACKLOG_RECORDS):
        producer.produce(topic, b"a value as long as many are, of some 60 bytes in all".ljust(60), partition=number % 2)
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()
    reader = RecordConsumer(
        {"bootstrap.servers": kafka.bootstrap_servers}, group_id=topic, client_id=topic, read_committed=True
    )
    reader.assign({(topic, partition): 0 for partition in range(3)})
    try:
        handed_out, before = 0, []
        for _ in range(ROUNDS):
            producer.produce(topic, b"new", partition=2)
            producer.flush()
            start, seen = handed_out, False
            while not seen:
                batches = reader.fetch(1_000, 10.0).batches
                assert batches, "nothing more comes"
                handed_out += sum(map(len, batches))
                seen = any(batch.partition == 2 for batch in batches)
            before.append(handed_out - start)
    finally:
        reader.close()
    assert AHEAD_RECORDS_MAX + QUEUED_RECORDS_MIN < BETWEEN_MAX
    assert max(before) < BETWEEN_MAX, before
