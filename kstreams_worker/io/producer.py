"""What a producer does for the worker's loop, and the one that does it without transactions (at_least_once).

`send` hands rows over and returns at once. A commit has these steps: `begin_commit` draws the line between what belongs to it
and what is sent later; `add_offsets` puts the input offsets into the transaction, if there is one; `commit` returns when
everything up to that line is on the brokers, and committed; `end_commit` goes on. `add_offsets` and `commit` are for a thread
of its own: meanwhile the owner may send. `abort` drops what was sent since the last commit, where that can be done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from operator import length_hint
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kstreams_worker.errors import BrokerError, RecordError
from kstreams_worker.io.client_log import SilentLogger
from kstreams_worker.io.failures import ProducerLost, describe, error_of
from kstreams_worker.io.lifeline import Lifeline
from kstreams_worker.topology.records import Headers, OutputRow, Partition

QUEUE_MAX_MESSAGES = 500_000
QUEUE_MAX_KBYTES = 256 * 1024
PLAIN_LINGER_MS = 5
"""Outputs are visible as soon as they are on the broker: they wait a moment only, to travel together."""
ANY_PARTITION = -1
"""Leave the partition to the key's hash."""
RETRY_WAIT_S = 0.02


DeliveryReport = Callable[[KafkaError | None, Message], None]


class Generation(Protocol):
    """The membership with which offsets are committed, so that the broker can refuse a member that is out (KIP-447)."""

    @property
    def generation_id(self) -> int: ...
    @property
    def member_id(self) -> str: ...
    @property
    def group_instance_id(self) -> str | None: ...


class RecordProducer(Protocol):
    """What the worker's loop needs of a producer."""

    def send(self, topic: str, rows: Sequence[OutputRow], partition: int = ANY_PARTITION) -> None: ...
    def send_tracked(
        self, topic: str, rows: Sequence[OutputRow], partition: int, delivered: Callable[[int], None]
    ) -> None: ...
    def send_with_headers(self, topic: str, row: OutputRow, headers: Headers) -> None: ...
    def begin_commit(self) -> None: ...
    def add_offsets(self, offsets: Mapping[Partition, int], generation: Generation) -> None: ...
    def commit(self) -> None: ...
    def end_commit(self) -> None: ...
    def abort(self) -> None: ...
    @property
    def held_rows(self) -> int: ...
    def close(self) -> None: ...


class BatchProducer:
    """The part that producers of both guarantees have: queueing rows."""

    def __init__(self, client_config: Mapping[str, Any], own_config: Mapping[str, Any], linger_ms: int) -> None:
        self._on_delivery: DeliveryReport | None = None
        self._config = {
            "linger.ms": linger_ms,
            "batch.num.messages": 100_000,
            "batch.size": 1024 * 1024,
            "queue.buffering.max.messages": QUEUE_MAX_MESSAGES,
            "queue.buffering.max.kbytes": QUEUE_MAX_KBYTES,
            "partitioner": "murmur2_random",  # as the Java clients: equal keys meet in equal partitions
            "compression.type": "lz4",
            **client_config,
            "acks": "all",
            "enable.idempotence": True,
            "log.connection.close": False,
            **own_config,
        }
        self._producer = self._new_client()

    def _new_client(self) -> Producer:
        return Producer(self._config, logger=SilentLogger())

    def send(self, topic: str, rows: Sequence[OutputRow], partition: int = ANY_PARTITION) -> None:
        """Queue rows for `topic`. Waits, serving delivery reports, while the queue is full."""
        self._queue(topic, rows, partition, self._on_delivery)

    def send_tracked(
        self, topic: str, rows: Sequence[OutputRow], partition: int, delivered: Callable[[int], None]
    ) -> None:
        """Like `send`, and tells the last row's offset once it is known (before `commit` returns)."""

        on_delivery = self._on_delivery

        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                delivered(message.offset())
            if on_delivery is not None:
                on_delivery(error, message)

        # Only the last row reports success: one callback for a batch instead of one for each record.
        self._queue(topic, rows[:-1], partition, self._on_delivery)
        self._queue(topic, rows[-1:], partition, report)

    def _queue(self, topic: str, rows: Sequence[OutputRow], partition: int, on_delivery: DeliveryReport | None) -> None:
        # Not produce_batch: version 2.15.1 takes no timestamps there, and it is no faster.
        produce, start = self._producer.produce, 0
        while start < len(rows):
            queued = iter(rows[start:] if start else rows)
            try:
                for key, value, timestamp_ms in queued:
                    # The sixth place is an alias of the fifth. By position, since keywords cost more.
                    produce(topic, value, key, partition, on_delivery, None, timestamp_ms)
            except BufferError:
                start = len(rows) - length_hint(queued) - 1
                self._wait_a_moment()
            except KafkaException as exception:
                if error_of(exception).code() != KafkaError.MSG_SIZE_TOO_LARGE:
                    raise
                raise RecordError(
                    f"a record cannot be produced: {describe(exception)}", topic, partition, -1
                ) from exception
            else:
                return

    def send_with_headers(self, topic: str, row: OutputRow, headers: Headers) -> None:
        """Queue one row with headers."""
        key, value, timestamp_ms = row
        while True:
            try:
                self._producer.produce(topic, value, key, ANY_PARTITION, self._on_delivery, None, timestamp_ms, headers)
            except BufferError:
                self._wait_a_moment()
            else:
                return

    def _wait_a_moment(self) -> None:
        """For records to be delivered."""
        self._producer.poll(RETRY_WAIT_S)


class _Epoch:
    """What was sent between two commits: how many rows, and how many of them are done."""

    def __init__(self, report: Callable[[KafkaError, Message], None]) -> None:
        self.sent = 0
        self.done = 0
        self._report = report

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        self.done += 1
        if error is not None:
            self._report(error, message)


class PlainProducer(BatchProducer):
    """At least once: outputs and changelog are on the brokers before the group plane commits the offsets."""

    held_rows = 0

    def __init__(self, client_config: Mapping[str, Any], *, client_id: str, flush_timeout_s: float) -> None:
        super().__init__(client_config, {"client.id": client_id, "message.timeout.ms": 0}, PLAIN_LINGER_MS)
        self._flush_timeout_s = flush_timeout_s
        self._lifeline = Lifeline(self._producer, client_config)
        self._newest_topic = ""
        self._failure = ""
        self._ending = self._epoch = self._new_epoch()

    def _new_epoch(self) -> _Epoch:
        epoch = _Epoch(self._report)
        self._on_delivery = epoch.on_delivery  # a transaction fails as a whole; here each record has to say so
        return epoch

    def _queue(self, topic: str, rows: Sequence[OutputRow], partition: int, on_delivery: DeliveryReport | None) -> None:
        self._epoch.sent += len(rows)
        self._newest_topic = topic
        super()._queue(topic, rows, partition, on_delivery)

    def send_with_headers(self, topic: str, row: OutputRow, headers: Headers) -> None:
        self._epoch.sent += 1
        self._newest_topic = topic
        super().send_with_headers(topic, row, headers)

    def _wait_a_moment(self) -> None:
        if self._producer.poll(RETRY_WAIT_S):
            self._lifeline.heard()
        elif self._lifeline.is_lost(self._newest_topic):
            raise ProducerLost("it had lost the brokers, with records that were not delivered")

    def begin_commit(self) -> None:
        """What is sent from now on is not waited for."""
        self._ending, self._epoch = self._epoch, self._new_epoch()

    def add_offsets(self, offsets: Mapping[Partition, int], generation: Generation) -> None:
        """Nothing: the offsets are the caller's to commit, after the rest."""

    def commit(self) -> None:
        """Wait until everything up to `begin_commit` is on the brokers. Raises BrokerError, ProducerLost."""
        ending, deadline = self._ending, time.monotonic() + self._flush_timeout_s
        while ending.done < ending.sent:
            if time.monotonic() > deadline:
                raise BrokerError(f"records were not delivered within {self._flush_timeout_s:g} s: are the brokers up?")
            self._wait_a_moment()
        if self._failure:
            failure, self._failure = self._failure, ""
            raise BrokerError(failure)

    def _report(self, error: KafkaError, message: Message) -> None:
        self._failure = self._failure or f"a record for topic {message.topic()} was not delivered: {describe(error)}"

    def end_commit(self) -> None:
        """Nothing was held back."""

    def abort(self) -> None:
        """Nothing can be taken back: what was sent will be sent again."""

    def close(self) -> None:
        self._producer.flush(1.0)
