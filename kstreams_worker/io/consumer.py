"""A consumer of assigned partitions that hands out record batches in columns.

Membership is not its business: partitions are assigned by hand, offsets are committed elsewhere. `fetch` waits for the first
record only and then takes what is already there, so a quiet topic costs no latency and a busy one is read in large batches.
It reads ahead of what it hands out, to be fair: see `ReadAhead`. Should its client lose the brokers for good, another takes
its place: see `Lifeline`.
Columns are taken out of the messages by `map` over C methods, which is what makes a batch cheap (about 0.15 us a record).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, overload

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from kstreams_worker.errors import BrokerError
from kstreams_worker.io.client_log import SilentLogger
from kstreams_worker.io.failures import describe
from kstreams_worker.io.lifeline import Lifeline
from kstreams_worker.io.read_ahead import ReadAhead
from kstreams_worker.topology.records import Headers, Partition, RecordBatch

log = structlog.get_logger(__name__)

FETCH_WAIT_MS = 50
"""How long a broker holds a fetch that finds nothing. It bounds how long a newly assigned partition waits behind it."""

QUEUE_BACKOFF_MS = 10
"""How long the client, once it has read far enough ahead, waits before it looks again. By default it is a second, in which a
fast worker can use up all it had."""

FETCH_BYTES_MAX = 512 * 1024
QUEUED_RECORDS_MIN = 10_000
"""How much the client asks for of a partition at a time, and with how many records waiting it asks for no more.

What it has waiting is in one queue, in the order in which it came: with a backlog of small records in two partitions, and the
client's own ten times as much, the records of the others stood in it for two seconds.
"""

GATHERED_BYTES = 16_384
GATHERING_SHARE = 4
"""Gathering may take a quarter of a commit interval at most."""

LEADERS_TIMEOUT_S = 1.0
READ_RECORDS = 5_000
"""What is asked of the client at a time."""
AHEAD_RECORDS_MAX = 20_000
AHEAD_BYTES_MAX = 32 * 1024 * 1024
"""How far it reads ahead for partitions that have nothing waiting: the client may have something of theirs further back."""
SAMPLING = 16
"""Every sixteenth record's size is measured."""

_timestamp_ms = itemgetter(1)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one `fetch` brought: a batch for each partition that has records, and the ends that were reached, as offsets."""

    batches: tuple[RecordBatch, ...]
    ends: Mapping[Partition, int]


def gathering(commit_interval_ms: int) -> dict[str, int]:
    """Client settings for input whose results are not seen before a commit anyway: it may gather on the brokers.

    Otherwise a steady input of small writes is read in as small pieces. At 20 000 records/s two workers and their broker need
    a fifth less of the processor with this.
    """
    wait_ms = min(FETCH_WAIT_MS, max(1, commit_interval_ms // GATHERING_SHARE))
    return {"fetch.min.bytes": GATHERED_BYTES, "fetch.wait.max.ms": wait_ms}


class RecordConsumer:
    """Owned by one thread. `report_ends` adds end-of-partition offsets to what `fetch` returns (they count control records)."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        *,
        group_id: str,
        client_id: str,
        read_committed: bool,
        report_ends: bool = False,
    ) -> None:
        self._client_config = client_config
        self._config = {
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "fetch.error.backoff.ms": 50,
            "fetch.queue.backoff.ms": QUEUE_BACKOFF_MS,
            "queued.max.messages.kbytes": 65_536,
            "queued.min.messages": QUEUED_RECORDS_MIN,
            "fetch.message.max.bytes": FETCH_BYTES_MAX,
            "check.crcs": False,
            "auto.offset.reset": "earliest",
            **client_config,
            "group.id": group_id,
            "client.id": client_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": report_ends,
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
            "log.connection.close": False,
        }
        self._consumer, self._lifeline = self._new_client()
        self._positions: dict[Partition, int | None] = {}
        """Of each assigned partition the next offset to read from the client; None: the first that is there."""
        self._ahead: ReadAhead[Message] = ReadAhead()
        self._ends: dict[Partition, int] = {}
        """Ends that were reached by reading ahead: told after the records before them."""
        self._value_bytes = 0.0

    def _new_client(self) -> tuple[Consumer, Lifeline]:
        client = Consumer(self._config, logger=SilentLogger())
        return client, Lifeline(client, self._client_config)

    @property
    def assigned(self) -> frozenset[Partition]:
        return frozenset(self._positions)

    def assign(self, positions: Mapping[Partition, int | None]) -> None:
        """Start to read these partitions at these offsets (None: from the beginning)."""
        if not positions:
            return
        self._look_up_leaders({topic for topic, _ in positions} - {topic for topic, _ in self._positions})
        self._start(positions)
        self._positions.update(positions)

    def _start(self, positions: Mapping[Partition, int | None]) -> None:
        self._consumer.incremental_assign(
            [
                TopicPartition(topic, partition, OFFSET_BEGINNING if offset is None else offset)
                for (topic, partition), offset in positions.items()
            ]
        )

    def _look_up_leaders(self, topics: Iterable[str]) -> None:
        """Ask who leads the partitions of topics that are new here.

        The client would find out by itself, but takes half a second to a second for it, while nobody processes the task.
        """
        for topic in topics:
            try:
                self._consumer.list_topics(topic, timeout=LEADERS_TIMEOUT_S)
            except KafkaException as exception:
                log.debug("cannot look up leaders", topic=topic, error=describe(exception))

    def unassign(self, partitions: Iterable[Partition]) -> None:
        """Stop to read these partitions; those not assigned are ignored."""
        known = [partition for partition in partitions if partition in self._positions]
        if known:
            self._consumer.incremental_unassign([TopicPartition(*partition) for partition in known])
            self._ahead.drop(known)
            for partition in known:
                del self._positions[partition]
                self._ends.pop(partition, None)

    def rewind(self, positions: Mapping[Partition, int | None]) -> None:
        """Go back to these offsets. Re-assigns, since that also drops what was fetched ahead."""
        self.unassign(positions)
        self.assign(positions)

    def fetch(self, max_records: int, timeout_s: float) -> Fetched:
        """Wait up to `timeout_s` for a record, then take up to `max_records` of what is there, a share of each partition.

        Raises BrokerError for a partition that cannot be read (deleted topic, no right to read it).
        """
        if not self._ahead.size:
            first = self._consumer.poll(timeout_s)
            if first is None:
                self._replace_lost_client()
                return _NOTHING
            self._add([first])
        self._read(max_records)
        batches = tuple(_columns(*partition, messages) for partition, messages in self._ahead.take(max_records))
        ends = {partition: end for partition, end in self._ends.items() if partition not in self._ahead}
        for partition in ends:
            del self._ends[partition]
        return Fetched(batches, ends)

    def _read(self, wanted: int) -> None:
        """Take from the client what is wanted now, and more as long as some partition would get nothing."""
        while self._ahead.size < wanted or (self._ahead.partitions < len(self._positions) and self._has_room):
            messages = self._consumer.consume(READ_RECORDS, 0)
            if messages:
                self._add(messages)
            if len(messages) < READ_RECORDS:
                return

    @property
    def _has_room(self) -> bool:
        return self._ahead.size < AHEAD_RECORDS_MAX and self._ahead.size * self._value_bytes < AHEAD_BYTES_MAX

    def _replace_lost_client(self) -> None:
        """Go on with another client from where this one was, should it have lost the brokers."""
        if self._positions and self._lifeline.is_lost(next(iter(self._positions))[0]):
            log.warning("a consumer had lost the brokers; another takes its place", client=self._config["client.id"])
            self._lifeline.end(self._consumer.close)
            self._consumer, self._lifeline = self._new_client()
            self._start(self._positions)

    def _add(self, messages: list[Message]) -> None:
        if any(map(Message.error, messages)):
            messages = _without_errors(messages, self._ends)
        else:
            self._lifeline.heard()
        sample = messages[::SAMPLING]
        if sample:
            self._value_bytes += (sum(map(len, sample)) / len(sample) - self._value_bytes) / 2
        for partition, run in groupby(messages, Message.partition):
            for same in self._of_one_topic(list(run)):
                topic_partition = (same[0].topic(), partition)
                if topic_partition in self._positions:
                    self._positions[topic_partition] = same[-1].offset() + 1
                    self._ahead.add(topic_partition, same)

    def _of_one_topic(self, messages: list[Message]) -> list[list[Message]]:
        # A message makes its topic's name anew when asked, so each is asked only where there can be several.
        if len({topic for topic, _ in self._positions}) == 1:
            return [messages]
        return [list(same) for _, same in groupby(messages, Message.topic)]

    def end_offset(self, partition: Partition) -> int | None:
        """The partition's end as of the last fetch, without asking the broker; None when not known yet."""
        try:
            _low, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
        except KafkaException:
            return None
        return high if high >= 0 else None

    def close(self) -> None:
        self._positions.clear()
        self._lifeline.end(self._consumer.close)


_NOTHING = Fetched((), {})


class _Offsets(Sequence[int]):
    """The offsets of messages, fetched where something asks: mostly for the last one's only."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return list(map(Message.offset, self._messages[index]))
        return int(self._messages[index].offset())

    def __len__(self) -> int:
        return len(self._messages)


def _columns(topic: str, partition: int, messages: list[Message]) -> RecordBatch:
    def headers(index: int) -> Headers:
        return messages[index].headers() or []

    return RecordBatch(
        topic=topic,
        partition=partition,
        keys=list(map(Message.key, messages)),
        values=list(map(Message.value, messages)),
        timestamps_ms=list(map(_timestamp_ms, map(Message.timestamp, messages))),
        offsets=_Offsets(messages),
        headers=headers,
    )


_PASSING = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,  # also while a broker that restarts has not loaded its metadata yet
}
"""Errors that the client recovers from by itself: logged, not raised."""


def _without_errors(messages: list[Message], ends: dict[Partition, int]) -> list[Message]:
    good = []
    for message in messages:
        error = message.error()
        if error is None:
            good.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            ends[message.topic(), message.partition()] = message.offset()
        elif error.code() in _PASSING or error.retriable():
            log.warning("consumer trouble", error=describe(error), topic=message.topic())
        else:
            raise BrokerError(f"cannot read {message.topic()}[{message.partition()}]: {describe(error)}")
    return good
