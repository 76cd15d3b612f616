"""Producers: one that writes in transactions (exactly_once_v2, KIP-447) and one that does not (at_least_once).

Both have the same verbs. `send` hands rows over and returns at once. A commit has these steps: `begin_commit` draws the line
between what belongs to it and what is sent later; `add_offsets` puts the input offsets into the transaction, if there is one;
`commit` returns when everything up to that line is on the brokers, and committed; `end_commit` goes on. `add_offsets` and
`commit` are for a thread of its own: meanwhile the owner may send. A transaction cannot take that (there is no other before it
has ended), so it is held back.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import length_hint
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from kstreams_worker.errors import BrokerError, RecordError
from kstreams_worker.io.call_thread import CallThread
from kstreams_worker.io.consumer import _SilentLogger
from kstreams_worker.io.failures import ProducerFenced, TransactionAborted, describe, error_of, is_fencing
from kstreams_worker.topology.records import Headers, OutputRow, Partition

QUEUE_MAX_MESSAGES = 500_000
QUEUE_MAX_KBYTES = 256 * 1024
INIT_TIMEOUT_S = 30.0
PLAIN_LINGER_MS = 5
"""Outputs are visible as soon as they are on the broker: they wait a moment only, to travel together."""
TRANSACTION_LINGER_MS = 100
"""Outputs are not visible before the commit, which sends at once whatever still waits. Sending before a batch is full only
has the client's two threads wake and block each other: with 5 ms a record costs twice the time."""
ANY_PARTITION = -1
"""Leave the partition to the key's hash."""
RETRY_WAIT_S = 0.02
OFFSETS_GRACE_S = 2.0
"""How much longer than a transaction may take the client may take to add offsets to it, before it is given up."""


DeliveryReport = Callable[[KafkaError | None, Message], None]


class Generation(Protocol):
    """The membership with which offsets are committed, so that the broker can refuse a member that is out (KIP-447)."""

    @property
    def generation_id(self) -> int: ...
    @property
    def member_id(self) -> str: ...
    @property
    def group_instance_id(self) -> str | None: ...


def group_metadata(group_id: str, generation: Generation) -> bytes:
    """The membership in librdkafka's serialized form, version 2, as `consumer_group_metadata()` would give it.

    Our consumers are not members (the group plane is), so we write the bytes ourselves. A contract test checks them
    against the installed client.
    """
    instance = generation.group_instance_id
    tail = b"\x01" if instance is None else b"\x00" + instance.encode() + b"\0"
    return (
        b"CGMDv2:"
        + struct.pack("<i", generation.generation_id)
        + group_id.encode()
        + b"\0"
        + generation.member_id.encode()
        + b"\0"
        + tail
    )


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


class _BatchProducer:
    """The part both have: queueing rows, and finding out about those that were not delivered."""

    def __init__(self, client_config: Mapping[str, Any], own_config: Mapping[str, Any], linger_ms: int) -> None:
        self._failure: KafkaError | None = None
        self._failed_topic = ""
        self._on_delivery: DeliveryReport | None = None
        self._producer = Producer(
            {
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
            },
            logger=_SilentLogger(),
        )

    def send(self, topic: str, rows: Sequence[OutputRow], partition: int = ANY_PARTITION) -> None:
        """Queue rows for `topic`. Waits, serving delivery reports, while the queue is full."""
        self._queue(topic, rows, partition, self._on_delivery)

    def send_tracked(
        self, topic: str, rows: Sequence[OutputRow], partition: int, delivered: Callable[[int], None]
    ) -> None:
        """Like `send`, and tells the last row's offset once it is known (before `commit` returns)."""

        on_delivery = self._on_delivery or self._report

        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                delivered(message.offset())
            on_delivery(error, message)

        # Only the last row reports success: one callback for a batch instead of one for each record.
        self._queue(topic, rows[:-1], partition, self._on_delivery)
        self._queue(topic, rows[-1:], partition, report)

    def _queue(self, topic: str, rows: Sequence[OutputRow], partition: int, on_delivery: DeliveryReport | None) -> None:
        # Not produce_batch: version 2.16.1 takes no timestamps there, and it is no faster.
        produce, start = self._producer.produce, 0
        while start < len(rows):
            queued = iter(rows[start:] if start else rows)
            try:
                for key, value, timestamp_ms in queued:
                    # The sixth place is an alias of the fifth. By position, since keywords cost more.
                    produce(topic, value, key, partition, on_delivery, None, timestamp_ms)
            except BufferError:
                start = len(rows) - length_hint(queued) - 1
                self._producer.poll(RETRY_WAIT_S)
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
                self._producer.poll(RETRY_WAIT_S)
            else:
                return

    def _report(self, error: KafkaError | None, message: Message) -> None:
        # A purged message belongs to a transaction that is being aborted: that is told by the transaction itself.
        purged = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
        if error is not None and self._failure is None and error.code() not in purged:
            self._failure = error
            self._failed_topic = message.topic()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise BrokerError(f"a record for topic {self._failed_topic} was not delivered: {describe(failure)}")


class _Epoch:
    """What was sent between two commits: how many rows, and how many of them are done."""

    def __init__(self, report: DeliveryReport) -> None:
        self.sent = 0
        self.done = 0
        self._report = report

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        self.done += 1
        if error is not None:
            self._report(error, message)


class PlainProducer(_BatchProducer):
    """At least once: outputs and changelog are on the brokers before the group plane commits the offsets."""

    held_rows = 0

    def __init__(self, client_config: Mapping[str, Any], *, client_id: str, flush_timeout_s: float) -> None:
        super().__init__(client_config, {"client.id": client_id, "message.timeout.ms": 0}, PLAIN_LINGER_MS)
        self._flush_timeout_s = flush_timeout_s
        self._ending = self._epoch = self._new_epoch()

    def _new_epoch(self) -> _Epoch:
        epoch = _Epoch(self._report)
        self._on_delivery = epoch.on_delivery  # a transaction fails as a whole; here each record has to say so
        return epoch

    def _queue(self, topic: str, rows: Sequence[OutputRow], partition: int, on_delivery: DeliveryReport | None) -> None:
        self._epoch.sent += len(rows)
        super()._queue(topic, rows, partition, on_delivery)

    def send_with_headers(self, topic: str, row: OutputRow, headers: Headers) -> None:
        self._epoch.sent += 1
        super().send_with_headers(topic, row, headers)

    def begin_commit(self) -> None:
        """What is sent from now on is not waited for."""
        self._ending, self._epoch = self._epoch, self._new_epoch()

    def add_offsets(self, offsets: Mapping[Partition, int], generation: Generation) -> None:
        """Nothing: the offsets are the caller's to commit, after the rest."""

    def commit(self) -> None:
        """Wait until everything up to `begin_commit` is on the brokers. Raises BrokerError."""
        ending, deadline = self._ending, time.monotonic() + self._flush_timeout_s
        while ending.done < ending.sent:
            if time.monotonic() > deadline:
                raise BrokerError(f"records were not delivered within {self._flush_timeout_s:g} s: are the brokers up?")
            self._producer.poll(RETRY_WAIT_S)
        self._raise_failure()

    def end_commit(self) -> None:
        """Nothing was held back."""

    def abort(self) -> None:
        """Nothing can be taken back: what was sent will be sent again."""

    def close(self) -> None:
        self._producer.flush(1.0)


class TransactionalProducer(_BatchProducer):
    """Exactly once: outputs, changelog records and input offsets of a commit become visible together or not at all.

    Creating one fences whoever used the transactional id before (its open transaction is aborted).
    Raises ProducerFenced when a later one did the same to this one, or when this one is beyond repair, and
    TransactionAborted when the caller must go back to its last commit.
    """

    def __init__(
        self,
        client_config: Mapping[str, Any],
        *,
        client_id: str,
        group_id: str,
        transactional_id: str,
        transaction_timeout_ms: int,
        commit_timeout_s: float,
    ) -> None:
        super().__init__(
            client_config,
            {
                "client.id": client_id,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": transaction_timeout_ms,
                "message.timeout.ms": transaction_timeout_ms,
            },
            TRANSACTION_LINGER_MS,
        )
        self._group_id = group_id
        self._commit_timeout_s = commit_timeout_s
        self._offsets_timeout_s = transaction_timeout_ms / 1000 + OFFSETS_GRACE_S
        self._open = False
        self._lost = False
        self._held: list[Callable[[], None]] | None = None
        """What was sent while a commit was under way; None: none is."""
        self.held_rows = 0
        self._caller = CallThread(f"{client_id}-offsets")
        init_transactions(self._producer, transactional_id)

    def _begin(self) -> None:
        if not self._open:
            try:
                self._producer.begin_transaction()
            except KafkaException as exception:
                self._translate(exception)
            self._open = True

    def send(self, topic: str, rows: Sequence[OutputRow], partition: int = ANY_PARTITION) -> None:
        if self._held is not None:
            self._hold(partial(self.send, topic, list(rows), partition), len(rows))
            return
        with self._in_transaction():
            super().send(topic, rows, partition)

    def send_tracked(
        self, topic: str, rows: Sequence[OutputRow], partition: int, delivered: Callable[[int], None]
    ) -> None:
        with self._in_transaction():
            super().send_tracked(topic, rows, partition, delivered)

    def send_with_headers(self, topic: str, row: OutputRow, headers: Headers) -> None:
        if self._held is not None:
            self._hold(partial(self.send_with_headers, topic, row, headers), 1)
            return
        with self._in_transaction():
            super().send_with_headers(topic, row, headers)

    def _hold(self, send: Callable[[], None], rows: int) -> None:
        assert self._held is not None
        self._held.append(send)
        self.held_rows += rows

    @contextmanager
    def _in_transaction(self) -> Iterator[None]:
        self._begin()
        try:
            yield
        except KafkaException as exception:
            self._translate(exception)

    def begin_commit(self) -> None:
        """What is sent from now on is held back for the next transaction."""
        self._begin()
        self._held = []

    def end_commit(self) -> None:
        """Send what was held back."""
        held = self._let_go()
        for send in held:
            send()

    def _let_go(self) -> list[Callable[[], None]]:
        held, self._held = self._held or [], None
        self.held_rows = 0
        return held

    def add_offsets(self, offsets: Mapping[Partition, int], generation: Generation) -> None:
        """Have the transaction commit the offsets to go on from, too, as this member of the group.

        The brokers look at the membership here and not again: the transaction may end in a later generation.
        Raises TransactionAborted, ProducerFenced, BrokerError.
        """
        deadline = time.monotonic() + self._commit_timeout_s
        positions = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        metadata = group_metadata(self._group_id, generation)
        self._with_deadline(
            lambda: self._retrying(lambda: self._producer.send_offsets_to_transaction(positions, metadata), deadline)
        )

    def commit(self) -> None:
        """Commit everything up to `begin_commit`. Raises as `add_offsets`."""
        deadline = time.monotonic() + self._commit_timeout_s
        self._retrying(lambda: self._producer.commit_transaction(self._commit_timeout_s), deadline)
        self._open = False
        self._failure = None

    def _with_deadline(self, add_offsets: Callable[[], None]) -> None:
        """Add offsets, or give this producer up.

        librdkafka waits for ever, whatever time-out it is given, for a group coordinator that was restarted between two
        commits and was out of the cluster's metadata meanwhile (its issues 5456 and 5511). By then the broker has ended
        the transaction anyway, so a new producer loses nothing.
        """
        try:
            self._caller.submit(add_offsets).result(self._offsets_timeout_s)
        except TimeoutError as timeout:
            self._lost = True
            raise ProducerFenced(
                f"the client could not add offsets to its transaction within {self._offsets_timeout_s:g} s"
            ) from timeout

    def abort(self) -> None:
        """Drop everything sent since the last commit, held back or not. Raises ProducerFenced."""
        self._let_go()
        if not self._open or self._lost:
            return
        deadline = time.monotonic() + self._commit_timeout_s
        self._retrying(lambda: self._producer.abort_transaction(self._commit_timeout_s), deadline)
        self._open = False
        self._failure = None

    def _retrying(self, call: Callable[[], None], deadline: float) -> None:
        while True:
            try:
                return call()
            except KafkaException as exception:
                if not error_of(exception).retriable() or time.monotonic() > deadline:
                    self._translate(exception)
                self._producer.poll(RETRY_WAIT_S)

    @staticmethod
    def _translate(exception: KafkaException) -> None:
        error = error_of(exception)
        # A call that comes after the fatal error itself is refused with _FATAL, which is not marked as fatal.
        if is_fencing(error) or error.fatal() or error.code() == KafkaError._FATAL:
            raise ProducerFenced(f"the producer was fenced, or failed for good: {describe(error)}") from exception
        # _STATE: something was sent after the transaction had failed.
        if error.txn_requires_abort() or error.code() == KafkaError._STATE:
            raise TransactionAborted(describe(error)) from exception
        raise BrokerError(f"the transaction failed: {describe(error)}") from exception

    def close(self) -> None:
        """Abort what is open; the broker would otherwise hold readers back until the transaction times out."""
        self._caller.close()
        try:
            self.abort()
        except (ProducerFenced, TransactionAborted, BrokerError):
            return


def init_transactions(producer: Producer, transactional_id: str) -> None:
    """Take the transactional id over: completes or aborts what its last user left open. Raises BrokerError."""
    deadline = time.monotonic() + INIT_TIMEOUT_S
    while True:
        try:
            producer.init_transactions(INIT_TIMEOUT_S)
        except KafkaException as exception:
            error = error_of(exception)
            if not error.retriable() or time.monotonic() > deadline:
                raise BrokerError(
                    f"cannot start transactions as {transactional_id}: {describe(error)}; "
                    "check that the brokers are up and that transactional.id may be written"
                ) from exception
        else:
            return
