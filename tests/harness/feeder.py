"""A steady input of known content."""

from __future__ import annotations

import random
import threading
import time
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from harness.waiting import DEADLINE_S

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
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "message.timeout.ms": 0,
                "log_level": 0,
            }
        )
        self._failures: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self._next_timestamp_ms = int(time.time() * 1000) - HOUR_MS
        self.timestamps_ms: dict[bytes, list[int]] = {}
        """When each key's records happened, in order. Only to be read when no thread of this object runs."""

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
            value = b'{"number":%d}' % len(times)
            self._producer.produce(
                self._topic, value, key, on_delivery=self._delivered, timestamp=self._next_timestamp_ms
            )
            self._next_timestamp_ms += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failures.append(str(error))

    def _flush(self) -> None:
        assert self._producer.flush(DEADLINE_S) == 0, "the input could not be written"
        assert not self._failures, self._failures[:3]
