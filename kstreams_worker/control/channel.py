"""A worker's end of the control topic: a thread that reads it from its beginning and goes on, and a way to write to it.

It reads with a client of its own that waits at the broker, so that a nudge is here within milliseconds and an idle topic
costs next to nothing. Whatever is wrong with the topic is told once, by name and with what to grant, and tried again
later; nothing that goes wrong here reaches the processing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

import structlog

from kstreams_worker.control.board import ControlBoard
from kstreams_worker.control.records import LeaveOrder, Memory, Nudge, Record, Routing, encode
from kstreams_worker.errors import BrokerError
from kstreams_worker.io.consumer import Fetched
from kstreams_worker.topology.records import Partition

log = structlog.get_logger(__name__)

PARTITION = 0
FETCH_WAIT_MS = 2_000
"""How long a broker holds a fetch that finds nothing."""
TURN_S = 1.0
RETRY_S = 10.0
"""How often to look again for a topic that is missing or cannot be read."""
QUICK_RETRY_S = 0.5
QUICK_LOOKS = 6
"""A topic that was just created is not known to all brokers at once."""
RECORDS_MAX = 1_000
FLUSH_TIMEOUT_S = 1.0


class ControlReader(Protocol):
    """What is needed of a consumer; it reports the partition's end."""

    def assign(self, positions: Mapping[Partition, int | None]) -> None: ...
    def fetch(self, max_records: int, timeout_s: float) -> Fetched: ...
    def close(self) -> None: ...


class ControlWriter(Protocol):
    """What is needed of a producer."""

    def warm_up(self, topic: str) -> None: ...
    def write(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None: ...
    def poll(self) -> None: ...
    def flush(self, timeout_s: float) -> None: ...


@dataclass(frozen=True)
class ControlClients:
    """Made by the channel's thread when they are needed first. `writer` gets what to call for a record that was lost."""

    end: Callable[[], int | None]
    """The offset after the topic's last record; None if there is no topic, or it may not be seen. Raises BrokerError."""
    reader: Callable[[], ControlReader]
    writer: Callable[[Callable[[str], None]], ControlWriter]


class ControlChannel(threading.Thread):
    """Started once, stopped once. `on_nudge` and `on_order` are called on its thread and must not block."""

    def __init__(self, topic: str, instance: UUID, clients: ControlClients, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.on_nudge: Callable[[Nudge], None] = lambda _: None
        """Nudges that came while this thread was reading; those of the past are of no interest."""
        self.on_order: Callable[[LeaveOrder | None], None] = lambda _: None
        """The order of this instance has changed; None: it was taken back."""
        self._topic = topic
        self._instance = instance
        self._clients = clients
        self._board = ControlBoard(topic)
        self._writer: ControlWriter | None = None
        self._early: dict[str, Memory | Routing] = {}
        self._write_lock = threading.Lock()
        self._look_now = threading.Event()
        self._caught_up = False
        self._looked = threading.Event()
        self._stopping = False
        self._expected = False
        self._quick_looks = QUICK_LOOKS
        self._told: set[str] = set()

    # -- for other threads ----------------------------------------------------------------------------------------

    def wait_until_read(self, timeout_s: float) -> None:
        """Wait until the topic has been read to its end, or is known to be missing."""
        self._looked.wait(timeout_s)

    @property
    def memory(self) -> Memory | None:
        """The newest leader's memory."""
        return self._board.memory

    def topic_made(self) -> None:
        """The leader has seen to the internal topics: from now on a missing one is worth a word."""
        if not self._expected:
            self._expected = True
            self._look_now.set()

    def write(self, record: Record) -> None:
        """Send a record, without waiting for it.

        While there is no topic to write to, what holds until it is replaced is kept for then, and the rest is dropped: a
        leader's first rounds are over before the topic that it has just created can be used, and no other may follow for days.
        """
        with self._write_lock:
            if self._writer is not None:
                self._early.pop(record.key, None)
                self._writer.write(self._topic, PARTITION, *encode(record))
            elif isinstance(record, Memory | Routing):
                self._early[record.key] = record

    def stop(self, timeout_s: float) -> None:
        """Send what is written, for a moment at most, and end the thread."""
        writer = self._writer
        if writer is not None:
            try:
                writer.flush(FLUSH_TIMEOUT_S)
            except BrokerError as error:
                log.debug("last words on the control topic were not delivered", error=str(error))
        self._stopping = True
        self._look_now.set()
        self.join(timeout_s)

    # -- the thread -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        while not self._stopping:
            pause_s = RETRY_S
            try:
                end = self._clients.end()
                if end is not None:
                    self._follow(end)
                elif self._expected and self._quick_looks:
                    self._quick_looks -= 1
                    pause_s = QUICK_RETRY_S
                elif self._expected:
                    self._tell("it does not exist, or this user may not see it")
            except BrokerError as error:
                self._tell(str(error))
            self._looked.set()
            self._look_now.wait(pause_s)
            self._look_now.clear()

    def _follow(self, end: int) -> None:
        """Read until told to stop; what comes after `end` is news. Raises BrokerError when the topic cannot be read."""
        if self._writer is None:
            writer = self._clients.writer(lambda reason: self._tell(f"a record could not be written: {reason}"))
            writer.warm_up(self._topic)
            with self._write_lock:
                self._writer = writer
        self._caught_up = False
        board = ControlBoard(self._topic)
        reader = self._clients.reader()
        try:
            reader.assign({(self._topic, PARTITION): None})
            while not self._stopping:
                self._take(board, reader.fetch(RECORDS_MAX, TURN_S), end)
                self._writer.poll()
        finally:
            reader.close()

    def _take(self, board: ControlBoard, fetched: Fetched, end: int) -> None:
        order_changed = False
        at_end = bool(fetched.ends) or end == 0
        for batch in fetched.batches:
            for key, value in zip(batch.keys, batch.values, strict=True):
                news = board.take(key, value)
                if isinstance(news, Nudge):
                    if self._caught_up:
                        self.on_nudge(news)
                elif news == self._instance:
                    order_changed = True
            at_end = at_end or batch.offsets[-1] + 1 >= end
        # Not by the end that the client reports alone: on a topic that is written to all the time it never does.
        if at_end and not self._caught_up:
            self._board = board
            self._caught_up = order_changed = True
            self._write_early()
        if order_changed and self._caught_up:
            self.on_order(board.orders.get(self._instance))
        if self._caught_up:
            self._looked.set()

    def _write_early(self) -> None:
        """Write what was kept, unless a later leader has written already."""
        assert self._writer is not None
        read = {each.key: each.generation for each in (self._board.memory, self._board.routing) if each is not None}
        with self._write_lock:
            for record in self._early.values():
                if record.generation > read.get(record.key, -1):
                    self._writer.write(self._topic, PARTITION, *encode(record))
            self._early.clear()

    def _tell(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            log.warning(
                "no use of the control topic",
                topic=self._topic,
                reason=what,
                means="rounds go at the speed of heartbeats, orders to leave are not heard, and a new leader starts without "
                "what the old one knew",
                to_do=f"create {self._topic} (one partition, cleanup.policy=compact) or let this user create it, and "
                "grant READ, WRITE and DESCRIBE on it",
            )
