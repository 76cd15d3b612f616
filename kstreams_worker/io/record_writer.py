"""A producer for single records that should arrive at once: no transaction, no waiting for company."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kstreams_worker.errors import BrokerError
from kstreams_worker.io.client_log import SilentLogger
from kstreams_worker.io.failures import describe

DELIVERY_TIMEOUT_MS = 10_000


class RecordWriter:
    """Any thread may write; one thread calls `poll` now and then, which is where failures are told."""

    def __init__(
        self, client_config: Mapping[str, Any], *, client_id: str, on_failure: Callable[[str], None] = lambda _: None
    ) -> None:
        """`on_failure` gets one sentence for each record that was not delivered."""
        self._on_failure = on_failure
        self._failure: str | None = None
        self._config = {
            **client_config,
            "client.id": client_id,
            "acks": "all",
            "linger.ms": 0,
            "message.timeout.ms": DELIVERY_TIMEOUT_MS,
            "queue.buffering.max.messages": 1_000,
            "log.connection.close": False,
        }
        self._producer = self._new_client()
        self._has_timed_out = False

    def _new_client(self) -> Producer:
        return Producer(self._config, logger=SilentLogger())

    def warm_up(self, topic: str) -> None:
        """Learn who leads the topic's partitions, so that the first record does not wait for that. Does not fail."""
        try:
            self._producer.list_topics(topic, timeout=DELIVERY_TIMEOUT_MS / 1000)
        except KafkaException as exception:
            self._on_failure(describe(exception))

    def write(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        """Send one record (value None: delete the key) without waiting for it. One that cannot be queued is a failure too."""
        try:
            self._producer.produce(topic, value, key, partition, on_delivery=self._delivered)
        except (BufferError, KafkaException) as error:
            self._fail(describe(error) if isinstance(error, KafkaException) else str(error))

    def poll(self) -> None:
        """Serve delivery reports."""
        self._producer.poll(0)
        if self._has_timed_out:
            self._replace_client()

    def _replace_client(self) -> None:
        """The brokers may have been away, or the client may have lost them for good: a new one is right in both cases."""
        old, self._producer, self._has_timed_out = self._producer, self._new_client(), False
        old.purge()
        old.flush(0)  # tells of what was still waiting

    def flush(self, timeout_s: float) -> None:
        """Wait until all is delivered. Raises BrokerError when it is not, with the reason of the first failure."""
        left = self._producer.flush(timeout_s)
        failure, self._failure = self._failure, None
        if failure or left:
            raise BrokerError(failure or f"no answer within {timeout_s:g} s")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._has_timed_out = self._has_timed_out or error.code() == KafkaError._MSG_TIMED_OUT
            self._fail(describe(error))

    def _fail(self, reason: str) -> None:
        self._failure = self._failure or reason
        self._on_failure(reason)
