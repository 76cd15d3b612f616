"""Orders to leave, from outside the group: which stand, giving one, deleting one. For tools, and for the end of an instance."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from kstreams_worker.control import control_topic
from kstreams_worker.control.board import ControlBoard
from kstreams_worker.control.channel import PARTITION, RECORDS_MAX
from kstreams_worker.control.records import LeaveOrder, encode, leave_key
from kstreams_worker.errors import BrokerError
from kstreams_worker.io.admin import Admin
from kstreams_worker.io.consumer import RecordConsumer
from kstreams_worker.io.record_writer import RecordWriter

CLIENT_ID = "kstreams-tool"
TIMEOUT_S = 15.0
FETCH_TIMEOUT_S = 0.5


class OrderBook:
    """The orders of one application. Each call makes its own clients, and raises BrokerError by name of the topic."""

    def __init__(self, client_config: Mapping[str, Any], application_id: str) -> None:
        self._client_config = client_config
        self._application_id = application_id
        self._topic = control_topic(application_id)

    def standing(self) -> Mapping[UUID, LeaveOrder]:
        """All orders that are neither taken back nor carried out."""
        topic = self._topic
        if topic not in Admin(self._client_config, client_id=CLIENT_ID).partition_counts([topic]):
            raise BrokerError(
                f"there is no topic {topic}, or this user may not see it, so no worker hears orders: check application.id, "
                "let a worker create it (CREATE), and grant READ, WRITE and DESCRIBE on it to the workers and to this user"
            )
        board = ControlBoard(topic)
        reader = RecordConsumer(
            self._client_config,
            group_id=self._application_id,
            client_id=CLIENT_ID,
            read_committed=False,
            report_ends=True,
        )
        deadline = time.monotonic() + TIMEOUT_S
        try:
            reader.assign({(topic, PARTITION): None})
            while time.monotonic() < deadline:
                fetched = reader.fetch(RECORDS_MAX, FETCH_TIMEOUT_S)
                for batch in fetched.batches:
                    for key, value in zip(batch.keys, batch.values, strict=True):
                        board.take(key, value)
                if fetched.ends:
                    return board.orders
        finally:
            reader.close()
        raise BrokerError(f"cannot read {topic}: no answer within {TIMEOUT_S:g} s")

    def give(self, orders: Iterable[LeaveOrder]) -> None:
        """Give orders; they are on the brokers when this returns."""
        self._write([encode(order) for order in orders])

    def delete(self, instances: Iterable[UUID]) -> None:
        """Delete the orders of these instances: they are taken back, or carried out."""
        self._write([(leave_key(instance).encode(), None) for instance in instances])

    def _write(self, records: list[tuple[bytes, bytes | None]]) -> None:
        writer = RecordWriter(self._client_config, client_id=CLIENT_ID)
        for key, value in records:
            writer.write(self._topic, PARTITION, key, value)
        try:
            writer.flush(TIMEOUT_S)
        except BrokerError as error:
            raise BrokerError(f"cannot write to {self._topic}: {error}; grant WRITE on it to this user") from error
