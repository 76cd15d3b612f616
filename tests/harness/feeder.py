"""A steady input of known content."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from harness.history import TopicReader
from harness.waiting import DEADLINE_S
from kstreams_worker.config.clients import data_plane_config
from kstreams_worker.io.lifeline import Lifeline

_TICK_S = 0.02
HOUR_MS = 3_600_000


class Feeder:
    """Writes records with random keys at a steady rate, from a thread of its own, until it is stopped.

    Which keys come in which order follows from the seed; event times are one millisecond apart and lie in the past. The
    producer is idempotent, so the topic holds each record once.
    """

    def __init__(
        self, bootstrap_servers: str, topic: str, *, keys: int = 2_000, rate_per_s: int = 1_000, seed: int = 1
    ) -> None:
        self._topic = topic
        self._keys = [b"key-%05d" % number for number in range(keys)]
        self._rate_per_s = rate_per_s
        self._random = random.Random(seed)
        self._servers = bootstrap_servers
        self._producer, self._lifeline = self._new_producer()
        self.renewals = 0
        """How often another client had to take the place of one that had lost the brokers."""
        self._failures: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self._next_timestamp_ms = int(time.time() * 1000) - HOUR_MS
        self.timestamps_ms: dict[bytes, list[int]] = {}
        """When each key's records happened, in order. Only to be read when no thread of this object runs."""

    def _new_producer(self) -> tuple[Producer, Lifeline]:
        client_config = data_plane_config(self._servers, {}, "producer")
        producer = Producer(
            {
                **client_config,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "message.timeout.ms": 0,
                "log_level": 0,
            }
        )
        return producer, Lifeline(producer, client_config)

    def burst(self, count: int) -> Self:
        """Write so many records at once; they are on the broker when this returns."""
        assert not self._thread.is_alive(), "bursts come before the steady input or after it"
        self._write(count)
        self._flush()
        return self

    def start(self) -> Self:
        """Begin with the steady input."""
        self._thread.start()
        return self

    def stop(self) -> dict[bytes, int]:
        """End the input; returns how often each key was written once all of it is on the broker."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._flush()
        return {key: len(times) for key, times in self.timestamps_ms.items()}

    def abandon(self) -> None:
        """End the input in whatever state it is; for a test that has failed."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._producer.purge()

    def look_up_leaders(self) -> int:
        """Have the client ask for the topic's leaders; returns how many partitions it has. Raises KafkaException."""
        found = self._producer.list_topics(self._topic, timeout=DEADLINE_S)
        return len(found.topics[self._topic].partitions)

    def _run(self) -> None:
        started, count = time.monotonic(), 0
        while not self._stopping.wait(_TICK_S):
            due = int((time.monotonic() - started) * self._rate_per_s)
            self._write(due - count)
            count = due

    def _write(self, count: int) -> None:
        for _ in range(count):
            key = self._random.choice(self._keys)
            times = self.timestamps_ms.setdefault(key, [])
            times.append(self._next_timestamp_ms)
            self._produce(key, len(times))
            self._next_timestamp_ms += 1
            self._serve(0)

    def _produce(self, key: bytes, number: int) -> None:
        value, timestamp_ms = b'{"number":%d}' % number, self.timestamps_ms[key][number - 1]
        self._producer.produce(self._topic, value, key, on_delivery=self._delivered, timestamp=timestamp_ms)

    def _serve(self, timeout_s: float) -> None:
        if self._producer.poll(timeout_s):
            self._lifeline.heard()
        elif len(self._producer) and self._lifeline.is_lost(self._topic):
            self._renew()

    def _renew(self) -> None:
        """Go on with another client. What is in the topic of a key are its first records, so the rest is written again."""
        self.renewals += 1
        self._producer, self._lifeline = self._new_producer()
        reader = TopicReader(self._servers, self._topic, self.look_up_leaders())
        try:
            found = Counter(message.key() for message in reader.read_to_end())
        finally:
            reader.close()
        for key, times in self.timestamps_ms.items():
            for number in range(found[key] + 1, len(times) + 1):
                self._produce(key, number)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failures.append(str(error))

    def _flush(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while len(self._producer):
            assert time.monotonic() < deadline, "the input could not be written"
            self._serve(0.1)
        assert not self._failures, self._failures[:3]
