"""The loop that somebody would write by hand for one job: count per key, exactly once, with a changelog and RocksDB.

It does all the work the runtime does for that job and nothing else: no tasks, no groups that change, no restore. Its rate on
the same machine is the measure for ours. The value of each record is parsed from JSON, since a real job looks at it.

    python -m benchmarks.yardstick BOOTSTRAP_SERVERS INPUT OUTPUT CHANGELOG PARTITIONS GROUP STATE_DIRECTORY
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import orjson
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from rocksdict import Options, Rdict, WriteBatch, WriteOptions

MAX_RECORDS = 10_000
COMMIT_INTERVAL_S = 0.5


def main(arguments: list[str]) -> None:
    servers, source, sink, changelog, partitions, group, directory = arguments
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": 65_536,
            "fetch.message.max.bytes": 4 * 1024 * 1024,
            "fetch.wait.max.ms": 50,
            "check.crcs": False,
        }
    )
    consumer.assign([TopicPartition(source, partition, 0) for partition in range(int(partitions))])
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": f"{group}-yardstick",
            "linger.ms": 5,
            "batch.num.messages": 100_000,
            "batch.size": 1024 * 1024,
            "queue.buffering.max.messages": 500_000,
            "compression.type": "lz4",
        }
    )
    producer.init_transactions()
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    stores = [Rdict(str(Path(directory) / str(partition)), options) for partition in range(int(partitions))]
    unlogged = WriteOptions()
    unlogged.disable_wal = True
    for store in stores:
        store.set_write_options(unlogged)
    counts: list[dict[bytes, int]] = [{} for _ in stores]
    while True:
        process(consumer, producer, stores, counts, sink, changelog)


def process(  # noqa: PLR0917
    consumer: Consumer,
    producer: Producer,
    stores: list[Rdict],
    counts: list[dict[bytes, int]],
    sink: str,
    changelog: str,
) -> None:
    """One commit interval's records: count, then write everything in one transaction, then to RocksDB."""
    dirty: list[set[bytes]] = [set() for _ in stores]
    positions: dict[tuple[str, int], int] = {}
    until = time.monotonic() + COMMIT_INTERVAL_S
    while time.monotonic() < until:
        messages: list[Message] = consumer.consume(MAX_RECORDS, 0.02)
        for message in messages:
            partition = message.partition()
            orjson.loads(message.value())
            key = message.key()
            own = counts[partition]
            own[key] = own.get(key, 0) + 1
            dirty[partition].add(key)
        latest: dict[tuple[str, int], int] = {}
        for message in reversed(messages):
            latest.setdefault((message.topic(), message.partition()), message.offset() + 1)
        positions.update(latest)
    if not positions:
        return
    producer.begin_transaction()
    batches = []
    for partition, keys in enumerate(dirty):
        batch = WriteBatch(raw_mode=True)
        rows, outputs = [], []
        for key in keys:
            count = counts[partition][key]
            value = count.to_bytes(8, "big")
            rows.append({"key": key, "value": value})
            outputs.append({"key": key, "value": str(count).encode()})
            batch.put(key, value)
        producer.produce_batch(changelog, rows, partition=partition)
        producer.produce_batch(sink, outputs)
        batches.append(batch)
    offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
    producer.commit_transaction()
    for store, batch in zip(stores, batches, strict=True):
        store.write(batch)


if __name__ == "__main__":
    main(sys.argv[1:])
