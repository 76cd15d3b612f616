"""Records into and out of topics, without Spark: what the Spark jobs are compared with."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import orjson
from confluent_kafka import Consumer, Producer, TopicPartition

from kstreams_worker.io.admin import Admin
from kstreams_worker.testing.broker import RunningKafka

DEADLINE_S = 60.0

Row = tuple[str | bytes | None, object]
"""A key, and a value: bytes as they are, None, or anything that JSON can say."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it stands in a topic."""

    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: bytes | None

    def json(self) -> dict[str, object]:
        assert self.value is not None
        return orjson.loads(self.value)


class Topics:
    """The topics of one test."""

    def __init__(self, kafka: RunningKafka) -> None:
        self._kafka = kafka
        self._admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})

    def create(self, name: str = "topic", partitions: int = 2) -> str:
        """A new topic whose name begins with `name`."""
        return self._kafka.create_topic(self._kafka.unique_name(name), partitions)

    def write(self, topic: str, rows: Iterable[Row], *, transaction: str = "commit") -> None:
        """Write rows in one transaction, partitioned as Java does; `transaction` may be "abort"."""
        producer = Producer(
            {
                "bootstrap.servers": self._kafka.bootstrap_servers,
                "transactional.id": self._kafka.unique_name("writer"),
                "partitioner": "murmur2_random",
            }
        )
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for key, value in rows:
            raw = value if value is None or isinstance(value, bytes) else orjson.dumps(value)
            producer.produce(topic, raw, key)
            producer.poll(0)
        assert producer.flush(DEADLINE_S) == 0
        if transaction == "commit":
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)

    def read(self, topic: str) -> list[Record]:
        """All committed records, by partition and offset."""
        partitions = [(topic, number) for number in range(self._admin.partition_counts([topic])[topic])]
        unread = {at for at, end in self._admin.end_offsets(partitions, committed=True).items() if end > 0}
        consumer = Consumer(
            {
                "bootstrap.servers": self._kafka.bootstrap_servers,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition(*at, 0) for at in unread])
        records = []
        deadline = time.monotonic() + DEADLINE_S
        while unread:
            assert time.monotonic() < deadline, f"no end of {sorted(unread)} within {DEADLINE_S:g} s"
            # It waits for so many records or so long, whichever comes first.
            for message in consumer.consume(10_000, 0.1):
                if message.error() is not None:
                    unread.discard((message.topic(), message.partition()))
                    continue
                key = message.key()
                records.append(
                    Record(
                        message.partition(),
                        message.offset(),
                        message.timestamp()[1],
                        None if key is None else key.decode(),
                        message.value(),
                    )
                )
        consumer.close()
        return sorted(records, key=lambda record: (record.partition, record.offset))
