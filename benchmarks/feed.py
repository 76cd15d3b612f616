"""A steady input, from a process of its own: `python -m benchmarks.feed SERVERS TOPIC RATE KEYS`, until it is ended.

A record's timestamp is the moment at which it was handed to the producer. A feeder that fell behind catches up, so a slow
consumer of its output does not make it wait.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.kafka import PRODUCER, value_of
from benchmarks.processes import GuardedProcess

TICK_S = 0.001
LINGER_MS = 5
"""As Kafka's own producers wait by default, since 4.0. Without it every record is a request of its own, and the broker is busy
with nothing else."""


def start_feed(servers: str, topic: str, rate_per_s: int, keys: int, directory: Path) -> GuardedProcess:
    """Begin to feed the topic."""
    command = [sys.executable, "-m", "benchmarks.feed", servers, topic, str(rate_per_s), str(keys)]
    return GuardedProcess("feed", command, directory / "feed.log")


def feed(servers: str, topic: str, rate_per_s: int, keys: int) -> None:
    """Write random keys at this rate for ever."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": LINGER_MS, **PRODUCER})
    chance = random.Random(2)
    number, started = 0, time.monotonic()
    while True:
        due = int((time.monotonic() - started) * rate_per_s)
        timestamp_ms = int(time.time() * 1000)
        for record in range(number, due):
            producer.produce(topic, value_of(record), b"key-%06d" % chance.randrange(keys), timestamp=timestamp_ms)
        number = max(number, due)
        producer.poll(0)
        time.sleep(TICK_S)


if __name__ == "__main__":
    feed(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
