"""The broker of a benchmark, and records on it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import orjson
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from benchmarks.processes import BenchmarkFailed
from kstreams_worker.devbroker.embedded import EmbeddedBroker
from kstreams_worker.io.consumer import RecordConsumer
from kstreams_worker.testing.broker import RunningKafka

HEAP_MB = 1024
FILL_ROWS = 20_000
REQUEST_TIMEOUT_S = 10.0
READ_WAIT_S = 1.0

PRODUCER = {"partitioner": "murmur2_random", "compression.type": "lz4", "enable.idempotence": True}
"""As the product's: equal keys meet in equal partitions."""


@contextmanager
def running_kafka(bootstrap_servers: str | None) -> Iterator[RunningKafka]:
    """The Kafka at this address, or one of our own, which ends with the `with` block."""
    if bootstrap_servers is not None:
        yield RunningKafka(bootstrap_servers)
        return
    # Without the options that favour a quick start: this one works hard.
    with EmbeddedBroker(heap_mb=HEAP_MB, java_options=()) as broker:
        yield RunningKafka(broker.bootstrap_servers, broker)


def value_of(number: int) -> bytes:
    """The value of the record of this number: an order, 79 to 92 bytes of JSON."""
    return orjson.dumps(
        {
            "order_id": number,
            "customer": f"customer-{number % 1000}",
            "amount": number % 5000,
            "event_time_ms": 1_700_000_000_000 + number,
        }
    )


def fill(servers: str, topic: str, records: int, keys: int, seed: int = 1) -> None:
    """Write so many records with random keys, as fast as possible; all are on the broker when this returns."""
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 20, "batch.size": 1024 * 1024, "log_level": 0, **PRODUCER}
    )
    chance = random.Random(seed)
    for first in range(0, records, FILL_ROWS):
        numbers = range(first, min(first + FILL_ROWS, records))
        rows = [{"key": b"key-%06d" % chance.randrange(keys), "value": value_of(number)} for number in numbers]
        producer.produce_batch(topic, rows)
        while len(producer) > FILL_ROWS:  # the queue has room for a few batches
            producer.poll(0.01)
    if producer.flush(60.0):
        raise BenchmarkFailed(f"{topic} could not be filled")


class CommittedOffsets:
    """What a group has committed of a topic, asked of the broker without being a member."""

    def __init__(self, servers: str, group: str, topic: str, partitions: int) -> None:
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        # Uncommitted: else the broker's answer waits for the transaction that is open.
        isolation = {"isolation.level": "read_uncommitted"}
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0, **isolation})

    def total(self) -> int:
        """The sum over all partitions."""
        try:
            found = self._consumer.committed(self._partitions, timeout=REQUEST_TIMEOUT_S)
        except KafkaException:  # the group's coordinator is not there yet
            return 0
        return sum(max(0, partition.offset) for partition in found)

    def close(self) -> None:
        self._consumer.close()


def sum_of_newest(servers: str, topic: str, partitions: int, timeout_s: float = 120.0) -> int:
    """Reads a topic of counts, committed ones only, to its end; returns the sum of each key's newest count."""
    consumer = RecordConsumer(
        {"bootstrap.servers": servers},
        group_id="benchmark-check",
        client_id="benchmark-check",
        read_committed=True,
        report_ends=True,
    )
    newest: dict[bytes | None, bytes | None] = {}
    ended: set[tuple[str, int]] = set()
    deadline = time.monotonic() + timeout_s
    try:
        consumer.assign({(topic, partition): 0 for partition in range(partitions)})
        while len(ended) < partitions:
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"{topic} could not be read to its end within {timeout_s:g} s")
            fetched = consumer.fetch(10_000, READ_WAIT_S)
            for batch in fetched.batches:
                newest.update(zip(batch.keys, batch.values, strict=True))
            ended.update(fetched.ends)
    finally:
        consumer.close()
    return sum(_number(value) for value in newest.values() if value is not None)


def _number(value: bytes) -> int:
    """Eight bytes, or text for those who write JSON."""
    return int.from_bytes(value, "big") if value[:1] == b"\0" else int(value)
