"""What came out, and whether it is what a recount of the input says.

The output of a count by key is, key by key, a rising sequence of numbers that ends with the number of the key's inputs.
Recounting needs nothing of the code under test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

import orjson
from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from harness.waiting import until
from kstreams_worker.config.clients import data_plane_config
from kstreams_worker.io.lifeline import Lifeline

EXAMPLES = 5
"""How many wrong keys a message names."""
_PASSING = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError.UNKNOWN_TOPIC_OR_PART)


class TopicReader:
    """Reads a topic from its beginning, read committed, in each partition's order. Owned by one thread.

    A client that has lost its brokers for good would fail the test that it reads for: it gets replaced.
    """

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self._servers = bootstrap_servers
        self._topic = topic
        self._partitions = partitions
        self._consumer, self._lifeline = self._new_consumer([0] * partitions)

    def _new_consumer(self, positions: list[int]) -> tuple[Consumer, Lifeline]:
        client_config = data_plane_config(self._servers, {}, "consumer")
        consumer = Consumer(
            {
                **client_config,
                "group.id": f"reader-of-{self._topic}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        consumer.assign(
            [TopicPartition(self._topic, partition, position) for partition, position in enumerate(positions)]
        )
        return consumer, Lifeline(consumer, client_config)

    def close(self) -> None:
        """Close the consumer."""
        self._lifeline.end(self._consumer.close)

    def read(self) -> list[Message]:
        """What has come since the last call, waiting a moment for the first of it."""
        messages = self._consumer.consume(10_000, 0.2)
        if messages:
            self._lifeline.heard()
        elif self._lifeline.is_lost(self._topic):
            positions = [self._position(partition) for partition in range(self._partitions)]
            self.close()
            self._consumer, self._lifeline = self._new_consumer(positions)
        return [message for message in messages if _is_record(message)]

    def read_to_end(self, of: Iterable[int] | None = None) -> list[Message]:
        """What is left up to the end of these partitions (None: of all) as it is now.

        Raises AssertionError if a transaction is still open in one of them.
        """
        written, stable = self.ends(committed=False), self.ends(committed=True)
        partitions = range(self._partitions) if of is None else list(of)
        for partition in partitions:
            assert stable[partition] >= written[partition], f"{self._topic}[{partition}] ends in an open transaction"
        return self.read_to({partition: written[partition] for partition in partitions})

    def read_to(self, ends: Mapping[int, int]) -> list[Message]:
        """What is left up to these offsets, and perhaps more. Raises AssertionError if it cannot be had in time."""
        messages: list[Message] = []

        def reached() -> bool:
            messages.extend(self.read())
            return all(self._position(partition) >= end for partition, end in ends.items())

        until(reached, f"{self._topic} is read to its end", explain=lambda: f"{len(messages)} records of {dict(ends)}")
        return messages

    def ends(self, *, committed: bool) -> dict[int, int]:
        """The offset after the last record of each partition: of all, or of those no open transaction holds back."""
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        admin = AdminClient({"bootstrap.servers": self._servers, "log_level": 0})
        asked = {TopicPartition(self._topic, number): OffsetSpec.latest() for number in range(self._partitions)}
        answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=10)
        return {partition.partition: future.result().offset for partition, future in answers.items()}

    def _position(self, partition: int) -> int:
        """The next offset to read; an end that follows control records only counts as read too."""
        [found] = self._consumer.position([TopicPartition(self._topic, partition)])
        return found.offset if found.offset >= 0 else 0


def _is_record(message: Message) -> bool:
    error = message.error()
    assert error is None or error.retriable() or error.code() in _PASSING, error
    return error is None


class History:
    """The numbers that a count by key has put out, in order."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self._reader = TopicReader(bootstrap_servers, topic, partitions)
        self.values: dict[bytes, list[int]] = {}
        self.timestamps_ms: dict[bytes, list[int]] = {}
        self.records_of_partition: Counter[int] = Counter()

    def close(self) -> None:
        """Close the reader; what was read stays."""
        self._reader.close()

    def read(self) -> int:
        """Take in what has come since the last call; returns the number of records so far."""
        self._take(self._reader.read())
        return self.records_of_partition.total()

    def read_to_end(self, of: Iterable[int] | None = None) -> None:
        """Take in all that is there in these partitions (None: in all).

        Raises AssertionError if a transaction is still open in one of them.
        """
        self._take(self._reader.read_to_end(of))

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.records_of_partition[message.partition()] += 1
            self.values.setdefault(message.key(), []).append(orjson.loads(message.value()))
            self.timestamps_ms.setdefault(message.key(), []).append(message.timestamp()[1])

    def check_timestamps(self, inputs_ms: Mapping[bytes, list[int]]) -> None:
        """Each number carries the time of the input that it counts: the newest so far, as inputs are in order of time."""
        wrong = [
            (key, f"{number} at {time_ms} instead of {inputs_ms[key][number - 1]}")
            for key, numbers in self.values.items()
            for number, time_ms in zip(numbers, self.timestamps_ms[key], strict=True)
            if number <= len(inputs_ms[key]) and time_ms != inputs_ms[key][number - 1]
        ]
        assert not wrong, f"{len(wrong)} outputs have a wrong time: {_some(wrong)}"

    def reaches(self, expected: Mapping[bytes, int]) -> bool:
        """Whether each key's newest number is at least what is expected; reads on first."""
        self.read()
        return not self._missing(expected)

    def behind(self, expected: Mapping[bytes, int]) -> str:
        """For a message: what is missing."""
        missing = self._missing(expected)
        return f"{sum(missing.values())} of {sum(expected.values())} records are not counted: {_some(missing.items())}"

    def _missing(self, expected: Mapping[bytes, int]) -> dict[bytes, int]:
        newest = {key: numbers[-1] for key, numbers in self.values.items()}
        return {key: count - newest.get(key, 0) for key, count in expected.items() if newest.get(key, 0) < count}


Check = Callable[[Mapping[bytes, list[int]], Mapping[bytes, int]], None]
"""Judges the numbers of each key by the number of its inputs. Raises AssertionError."""


def check_exactly_once(values: Mapping[bytes, list[int]], expected: Mapping[bytes, int]) -> None:
    """Each key's numbers rise without a repeat and end with the number of its inputs; no key is missing or made up."""
    _check_keys(values, expected)
    wrong = [(key, numbers) for key, numbers in values.items() if any(b <= a for a, b in pairwise(numbers))]
    assert not wrong, f"{len(wrong)} keys were counted twice or went back: {_some(wrong)}"
    wrong_ends = [(key, f"{values[key][-1]} of {count}") for key, count in expected.items() if values[key][-1] != count]
    assert not wrong_ends, f"{len(wrong_ends)} keys end with a wrong count: {_some(wrong_ends)}"


def check_every_update(values: Mapping[bytes, list[int]], expected: Mapping[bytes, int]) -> None:
    """Each key's numbers are 1, 2, 3, ... up to the number of its inputs."""
    _check_keys(values, expected)
    wrong = [(key, numbers) for key, numbers in values.items() if numbers != list(range(1, expected[key] + 1))]
    assert not wrong, f"{len(wrong)} keys miss or repeat an update: {_some(wrong)}"


def check_at_least_once(values: Mapping[bytes, list[int]], expected: Mapping[bytes, int]) -> None:
    """Each key ends with the number of its inputs or more, and no key is missing or made up."""
    _check_keys(values, expected)
    wrong = [(key, f"{values[key][-1]} of {count}") for key, count in expected.items() if values[key][-1] < count]
    assert not wrong, f"{len(wrong)} keys end with a count too low: {_some(wrong)}"


def _check_keys(values: Mapping[bytes, list[int]], expected: Mapping[bytes, int]) -> None:
    assert values.keys() == expected.keys(), (
        f"keys differ: {_some((key, '') for key in values.keys() ^ expected.keys())}"
    )


def _some(found: Iterable[tuple[bytes, object]]) -> str:
    return ", ".join(f"{key.decode()} {what}" for key, what in sorted(found, key=lambda item: item[0])[:EXAMPLES])
