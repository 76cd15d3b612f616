"""The producer that writes in transactions (exactly_once_v2, KIP-447).

A client serves until something goes wrong in one of its transactions, and never after that. To abort what has failed another
takes its place: it takes the transactional id over, so the brokers end what the first one left open and refuse whatever it
still sends. So there is one way out of all failures, in a second or so. librdkafka's own ways out differ by the state that it
is in: they can take a minute, and a request that waits inside it for a coordinator goes out whenever that is back, however
much later.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import structlog
from confluent_kafka import KafkaException, Producer, TopicPartition

from kstreams_worker.errors import BrokerError
from kstreams_worker.io.call_thread import CallThread
from kstreams_worker.io.failures import ProducerLost, TransactionAborted, describe, error_of, is_final, was_not_asked
from kstreams_worker.io.producer import ANY_PARTITION, RETRY_WAIT_S, BatchProducer, Generation
from kstreams_worker.topology.records import Headers, OutputRow, Partition

log = structlog.get_logger(__name__)

INIT_TIMEOUT_S = 30.0
LINGER_MS = 100
"""Outputs are not visible before the commit, which sends at once whatever still waits. Sending before a batch is full only
has the client's two threads wake and block each other: with 5 ms a record costs twice the time."""
OFFSETS_GRACE_S = 2.0
"""How much longer than a transaction may take the client may take to add offsets to it: by then the broker has ended it."""
ABORT_TIMEOUT_S = 3.0


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


class TransactionalProducer(BatchProducer):
    """Exactly once: outputs, changelog records and input offsets of a commit become visible together or not at all.

    What is sent while a commit is under way is held back: there is no other transaction before that one has ended.

    Creating one fences whoever used the transactional id before: its open transaction is aborted. A worker whose id was taken
    over just takes it back: whether it may commit is for the group to say, each time that offsets are added (KIP-447).

    Raises TransactionAborted when the caller must `abort` and go back to its last commit, ProducerLost when nobody knows
    what became of a commit, and BrokerError where trying again is no use.
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
            LINGER_MS,
        )
        self._client_id = client_id
        self._group_id = group_id
        self._transactional_id = transactional_id
        self._commit_timeout_s = commit_timeout_s
        self._offsets_timeout_s = transaction_timeout_ms / 1000 + OFFSETS_GRACE_S
        self._open = False
        self._broken = ""
        """What went wrong in the open transaction; the client is of no more use then."""
        self._lost = False
        self._held: list[Callable[[], None]] | None = None
        """What was sent while a commit was under way; None: none is."""
        self.held_rows = 0
        self._caller = self._new_caller()
        init_transactions(self._producer, transactional_id)

    def _new_caller(self) -> CallThread:
        return CallThread(f"{self._client_id}-offsets")

    # -- sending ----------------------------------------------------------------------------------------------------

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
        with self._judging():
            if not self._open:
                self._producer.begin_transaction()
                self._open = True
            yield

    # -- a commit ---------------------------------------------------------------------------------------------------

    def begin_commit(self) -> None:
        """What is sent from now on is held back for the next transaction."""
        with self._in_transaction():
            self._held = []

    def add_offsets(self, offsets: Mapping[Partition, int], generation: Generation) -> None:
        """Have the transaction commit the offsets to go on from, too, as this member of the group.

        The brokers look at the membership here and not again: the transaction may end in a later generation.
        Raises TransactionAborted, BrokerError.

        librdkafka waits for a group coordinator that is away for as long as that takes, whatever time-out it is given (its
        issue 5456). Hence the thread.
        """
        positions = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        add = partial(self._producer.send_offsets_to_transaction, positions, group_metadata(self._group_id, generation))
        deadline = time.monotonic() + self._offsets_timeout_s
        with self._judging():
            try:
                self._caller.submit(partial(_retrying, self._producer, add, deadline)).result(self._offsets_timeout_s)
            except TimeoutError as timeout:
                self._broken = (
                    f"the client could not add offsets to its transaction within {self._offsets_timeout_s:g} s"
                )
                raise TransactionAborted(self._broken) from timeout

    def commit(self) -> None:
        """Commit everything up to `begin_commit`. Raises TransactionAborted, or ProducerLost.

        The transaction may be committed even if this fails: what was asked of the brokers, and not answered, may be done.
        """
        deadline = time.monotonic() + self._commit_timeout_s
        try:
            _retrying(self._producer, partial(self._producer.commit_transaction, self._commit_timeout_s), deadline)
        except KafkaException as exception:
            if was_not_asked(error_of(exception)):
                self._broken = describe(exception)
                raise TransactionAborted(self._broken) from exception
            self._lost = True
            raise ProducerLost(f"a commit ended in an unknown way: {describe(exception)}") from exception
        self._open = False

    def end_commit(self) -> None:
        """Send what was held back."""
        held = self._let_go()
        for send in held:
            send()

    def _let_go(self) -> list[Callable[[], None]]:
        held, self._held = self._held or [], None
        self.held_rows = 0
        return held

    # -- failures ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _judging(self) -> Iterator[None]:
        """Whatever a client complains of in here, it is not asked for anything any more."""
        if self._broken:
            raise TransactionAborted(self._broken)
        try:
            yield
        except KafkaException as exception:
            error = error_of(exception)
            self._broken = describe(error)
            if is_final(error):
                raise BrokerError(f"the transaction failed: {self._broken}") from exception
            raise TransactionAborted(self._broken) from exception

    def abort(self) -> None:
        """Drop everything sent since the last commit, held back or not. Raises BrokerError."""
        self._let_go()
        if self._lost or not (self._open or self._broken):
            return
        if not self._broken:
            self._abort_transaction()
        if self._broken:
            self._replace_client()
        self._open = False

    def _abort_transaction(self) -> None:
        deadline = time.monotonic() + ABORT_TIMEOUT_S
        try:
            _retrying(self._producer, partial(self._producer.abort_transaction, ABORT_TIMEOUT_S), deadline)
        except KafkaException as exception:
            self._broken = describe(exception)

    def _replace_client(self) -> None:
        log.debug("another client takes over the transactional id", reason=self._broken)
        self._end_client()
        self._producer, self._caller = self._new_client(), self._new_caller()
        init_transactions(self._producer, self._transactional_id)
        self._broken = ""

    def _end_client(self) -> None:
        """Let go of the client: on its own thread, since it may be in a call there, and takes a while to end."""
        client = self._producer
        client.purge(blocking=False)
        self._caller.submit(lambda: client)
        self._caller.close()

    def close(self) -> None:
        """Abort what is open; the broker would otherwise hold readers back until the transaction times out."""
        if self._open and not self._lost and not self._broken:
            self._abort_transaction()
        self._end_client()


def _retrying(client: Producer, call: Callable[[], None], deadline: float) -> None:
    """Make this call of the client's. Raises the KafkaException that is no use, or too late, to try again after."""
    while True:
        try:
            return call()
        except KafkaException as exception:
            if not error_of(exception).retriable() or time.monotonic() > deadline:
                raise
            client.poll(RETRY_WAIT_S)


def init_transactions(producer: Producer, transactional_id: str) -> None:
    """Take the transactional id over: completes or aborts what its last user left open. Raises BrokerError."""
    deadline = time.monotonic() + INIT_TIMEOUT_S
    try:
        _retrying(producer, partial(producer.init_transactions, INIT_TIMEOUT_S), deadline)
    except KafkaException as exception:
        raise BrokerError(
            f"cannot start transactions as {transactional_id}: {describe(exception)}; "
            "check that the brokers are up and that transactional.id may be written"
        ) from exception
