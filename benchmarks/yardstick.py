"""The loop that somebody would write by hand for one job: count per key, exactly once, with a changelog and RocksDB.

It does all the work the runtime does for that job and nothing else: no tasks, no groups that change, no restore, no bound
on its memory. Its rate on the same machine is the measure for ours. The clients have the runtime's settings, and the
value of each record is parsed, since a real job looks at it.

Run by `python -m benchmarks count`; the job is in the environment (see `job.py`).
"""

from __future__ import annotations

import gc
import os
import struct
import time
from collections.abc import Iterable

import orjson
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from benchmarks.job import Job

MAX_RECORDS = 10_000
Row = tuple[bytes, bytes, int]
"""Key, value and timestamp of a record to produce."""

encode = struct.Struct(">q").pack


class Yardstick:
    """Counts until it is killed."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.exactly_once = job.guarantee == "exactly_once_v2"
        self.consumer = _consumer(job, self.exactly_once)
        self.producer = _producer(job, self.exactly_once)
        self.stores = [_store(str(job.directory / str(partition))) for partition in range(job.partitions)]
        self.counts: list[dict[bytes, int]] = [{} for _ in self.stores]

    def run(self) -> None:
        """One commit interval after the other."""
        while True:
            self.interval(time.monotonic() + self.job.commit_interval_ms / 1000)

    def interval(self, until: float) -> None:
        """Count what comes, then write everything in one transaction, then to RocksDB."""
        changed: list[dict[bytes, int]] = [{} for _ in self.stores]
        positions: dict[int, int] = {}
        if self.exactly_once:
            self.producer.begin_transaction()
        while time.monotonic() < until:
            messages = self.consumer.consume(MAX_RECORDS, 0.02)
            if any(map(Message.error, messages)):
                raise RuntimeError(next(filter(None, map(Message.error, messages))))
            self.count(messages, changed)
            positions.update(zip(map(Message.partition, messages), map(Message.offset, messages), strict=True))
        batches = []
        for partition, times in enumerate(changed):
            counts, batch = self.counts[partition], WriteBatch(raw_mode=True)
            rows = [(key, encode(counts[key]), timestamp) for key, timestamp in times.items()]
            self.send(self.job.changelog, rows, partition)
            if not self.job.every_update:
                self.send(self.job.sink, rows)
            for key, value, timestamp in rows:
                batch.put(key, encode(timestamp) + value)
            batches.append(batch)
        self.commit([TopicPartition(self.job.source, number, last + 1) for number, last in positions.items()])
        for store, batch in zip(self.stores, batches, strict=True):
            store.write(batch)

    def count(self, messages: list[Message], changed: list[dict[bytes, int]]) -> None:
        """Add the messages to the counts; `changed` gets each key's newest timestamp."""
        counts, every_update, updates = self.counts, self.job.every_update, []
        columns = (
            map(Message.partition, messages),
            map(Message.key, messages),
            map(orjson.loads, map(Message.value, messages)),
            map(Message.timestamp, messages),
        )
        for partition, key, _order, (_, timestamp) in zip(*columns, strict=True):
            own = counts[partition]
            own[key] = count = own.get(key, 0) + 1
            changed[partition][key] = timestamp
            if every_update:
                updates.append((key, encode(count), timestamp))
        self.send(self.job.sink, updates)

    def send(self, topic: str, rows: Iterable[Row], partition: int = -1) -> None:
        """Produce the rows. Record by record: `produce_batch` takes no timestamps, and is no faster."""
        # By position, since keywords cost more. The sixth place is an alias of the fifth.
        produce = self.producer.produce
        for key, value, timestamp in rows:
            try:
                produce(topic, value, key, partition, None, None, timestamp)
            except BufferError:
                self.producer.flush()
                produce(topic, value, key, partition, None, None, timestamp)

    def commit(self, offsets: list[TopicPartition]) -> None:
        """Make what was sent, and these input positions, final."""
        if self.exactly_once:
            if offsets:
                self.producer.send_offsets_to_transaction(offsets, self.consumer.consumer_group_metadata())
            self.producer.commit_transaction()
        elif offsets:
            self.producer.flush()
            self.consumer.commit(offsets=offsets, asynchronous=False)


def _consumer(job: Job, exactly_once: bool) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": job.servers,
            "group.id": job.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if exactly_once else "read_uncommitted",
            "queued.max.messages.kbytes": 65_536,
            "fetch.message.max.bytes": 4 * 1024 * 1024,
            "fetch.wait.max.ms": 50,
            "fetch.queue.backoff.ms": 10,
            "check.crcs": False,
        }
    )
    consumer.assign([TopicPartition(job.source, partition, 0) for partition in range(job.partitions)])
    return consumer


def _producer(job: Job, exactly_once: bool) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": job.servers,
            "linger.ms": 100 if exactly_once else 5,
            "batch.num.messages": 100_000,
            "batch.size": 1024 * 1024,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 256 * 1024,
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            "enable.idempotence": True,
            **({"transactional.id": f"{job.group}-yardstick"} if exactly_once else {}),
        }
    )
    if exactly_once:
        producer.init_transactions()
    return producer


def _store(path: str) -> Rdict:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    store = Rdict(path, options)
    unlogged = WriteOptions()
    unlogged.disable_wal = True
    store.set_write_options(unlogged)
    return store


if __name__ == "__main__":
    gc.set_threshold(100_000, 50, 100)  # as in our workers; the defaults look for garbage among all counts all the time
    Yardstick(Job.from_environment(os.environ)).run()
