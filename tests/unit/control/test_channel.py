"""A worker's end of the control topic: what it passes on, what it keeps to itself, and what it says when there is no topic."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from uuid import UUID

import pytest

from assignor.model import LeaderMemory
from kstreams_worker.control import channel as channel_module
from kstreams_worker.control.channel import ControlChannel, ControlClients
from kstreams_worker.control.records import LeaveOrder, Memory, Nudge, Record, Routing, encode, leave_key
from kstreams_worker.errors import BrokerError
from kstreams_worker.io.consumer import Fetched
from kstreams_worker.topology.records import Partition, RecordBatch

DEADLINE_S = 30.0
INSTANCE, OTHER = UUID(int=1), UUID(int=2)
ORDER = LeaveOrder(instance=INSTANCE, ordered_ms=1)
NUDGE = Nudge(generation=3, member="m", ready=())
TOPIC = "orders-control"
Row = tuple[bytes | None, bytes | None]


class Topic:
    """The topic as the channel sees it: what a test puts in comes out of the next fetch."""

    def __init__(self) -> None:
        self.rows: queue.SimpleQueue[list[Row] | BrokerError] = queue.SimpleQueue()
        self.written: list[Row] = []
        self.is_there = True
        self.length = 1_000
        self.reports_ends = True
        self.looks = 0
        self.fail_writing: str | None = None
        self.on_failure = lambda _reason: None
        self.on_warm_up: Callable[[], None] = lambda: None

    def end(self) -> int | None:
        self.looks += 1
        return self.length if self.is_there else None

    def put(self, *records: Record | Row) -> None:
        self.rows.put([encode(each) if not isinstance(each, tuple) else each for each in records])

    # -- as a reader
    def assign(self, positions: Mapping[Partition, int | None]) -> None:
        assert positions == {(TOPIC, 0): None}

    def fetch(self, max_records: int, timeout_s: float) -> Fetched:
        try:
            rows = self.rows.get(timeout=0.01)
        except queue.Empty:
            return Fetched((), {})
        if isinstance(rows, BrokerError):
            raise rows
        keys, values = [key for key, _ in rows], [value for _, value in rows]
        batch = RecordBatch(TOPIC, 0, keys, values, [0] * len(rows), list(range(len(rows))))
        ends = {(TOPIC, 0): len(rows)} if self.reports_ends else {}
        return Fetched((batch,) if rows else (), ends)

    def close(self) -> None:
        return

    # -- as a writer
    def warm_up(self, topic: str) -> None:
        assert topic == TOPIC
        self.on_warm_up()

    def write(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        self.written.append((key, value))
        if self.fail_writing:
            self.on_failure(self.fail_writing)

    def poll(self) -> None:
        return

    def flush(self, timeout_s: float) -> None:
        return


@pytest.fixture
def topic() -> Topic:
    return Topic()


class Heard:
    """What the channel has passed on."""

    def __init__(self, channel: ControlChannel) -> None:
        self.events: queue.SimpleQueue[Nudge | LeaveOrder | None] = queue.SimpleQueue()
        channel.on_nudge = self.events.put
        channel.on_order = self.events.put

    def next(self) -> Nudge | LeaveOrder | None:
        return self.events.get(timeout=DEADLINE_S)


@pytest.fixture
def channel(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlChannel]:
    monkeypatch.setattr(channel_module, "RETRY_S", 0.01)
    monkeypatch.setattr(channel_module, "QUICK_RETRY_S", 0.01)

    def writer(on_failure: object) -> Topic:
        topic.on_failure = on_failure  # type: ignore[assignment]
        return topic

    made = ControlChannel(TOPIC, INSTANCE, ControlClients(topic.end, lambda: topic, writer), "control")
    yield made
    if made.is_alive():
        made.stop(DEADLINE_S)
        assert not made.is_alive()


def test_the_past_is_read_before_anything_is_passed_on(channel: ControlChannel, topic: Topic) -> None:
    """Nudges of the past are of no interest; an order that still stands is, and so is the newest memory."""
    heard = Heard(channel)
    memory = Memory.of(LeaderMemory(), 7)
    topic.put(NUDGE, memory, ORDER, ORDER.model_copy(update={"instance": OTHER}))
    channel.start()
    assert heard.next() == ORDER
    channel.wait_until_read(DEADLINE_S)
    assert channel.memory == memory
    topic.put(NUDGE)
    assert heard.next() == NUDGE


def test_an_order_that_is_over_is_not_heeded(channel: ControlChannel, topic: Topic) -> None:
    heard = Heard(channel)
    topic.put(ORDER, (leave_key(INSTANCE).encode(), None))
    channel.start()
    assert heard.next() is None


def test_orders_come_and_go_orders_of_others_do_not_matter(channel: ControlChannel, topic: Topic) -> None:
    heard = Heard(channel)
    topic.put()
    channel.start()
    assert heard.next() is None
    topic.put(ORDER.model_copy(update={"instance": OTHER}), (leave_key(OTHER).encode(), None))
    topic.put(ORDER)
    assert heard.next() == ORDER
    topic.put((leave_key(INSTANCE).encode(), None))
    assert heard.next() is None


def test_a_topic_that_is_written_to_all_the_time_is_caught_up_with(channel: ControlChannel, topic: Topic) -> None:
    """A client that always gets new records never reports the end; the length at the start tells what is the past."""
    heard = Heard(channel)
    topic.reports_ends = False
    topic.length = 2
    topic.put(NUDGE, ORDER)
    topic.put(NUDGE)
    channel.start()
    assert heard.next() == ORDER
    assert heard.next() == NUDGE


def test_an_empty_topic_is_read_at_once(channel: ControlChannel, topic: Topic) -> None:
    heard = Heard(channel)
    topic.reports_ends = False
    topic.length = 0
    channel.start()
    assert heard.next() is None
    channel.wait_until_read(DEADLINE_S)


def test_garbage_stops_nothing(channel: ControlChannel, topic: Topic) -> None:
    heard = Heard(channel)
    topic.put((b"nudge", b"garbage"), (None, None))
    channel.start()
    assert heard.next() is None
    topic.put((b"\xff", b"\xff"), NUDGE)
    assert heard.next() == NUDGE


def test_what_is_written_goes_to_the_topic(channel: ControlChannel, topic: Topic) -> None:
    heard = Heard(channel)
    channel.write(NUDGE)
    topic.put()
    channel.start()
    heard.next()
    channel.write(NUDGE)
    assert topic.written == [encode(NUDGE)], "what came before there was a topic is dropped"


@pytest.mark.parametrize("newest", [None, 1, 2, 3], ids=lambda newest: f"on the topic: {newest}")
def test_what_a_leader_says_before_there_is_a_topic_is_written_as_soon_as_there_is(
    channel: ControlChannel, topic: Topic, newest: int | None
) -> None:
    """Unless another leader has written since: then that is newer."""
    topic.is_there = False
    heard = Heard(channel)
    channel.start()
    channel.wait_until_read(DEADLINE_S)
    for generation in (1, 2):
        channel.write(Memory.of(LeaderMemory(), generation))
        channel.write(Routing(generation=generation, endpoints=(), active={}, standbys={}))
    topic.put(*([] if newest is None else [Memory.of(LeaderMemory(), newest)]))
    topic.is_there = True
    channel.topic_made()
    heard.next()
    channel.write(NUDGE)
    memory = [] if newest is not None and newest >= 2 else [encode(Memory.of(LeaderMemory(), 2))]
    routing = encode(Routing(generation=2, endpoints=(), active={}, standbys={}))
    assert topic.written == [*memory, routing, encode(NUDGE)]


def test_what_a_leader_says_later_is_not_overwritten_by_what_it_said_before_there_was_a_topic(
    channel: ControlChannel, topic: Topic
) -> None:
    """Between the topic's first use and its end it may lead another round."""
    channel.write(Memory.of(LeaderMemory(), 1))
    made = threading.Event()
    topic.on_warm_up = made.set
    heard = Heard(channel)
    channel.start()
    assert made.wait(DEADLINE_S)
    while not topic.written:  # the topic is known a moment after it is warmed up
        channel.write(Memory.of(LeaderMemory(), 2))
    topic.put()
    heard.next()
    channel.write(NUDGE)
    memories = [row for row in topic.written if row != encode(NUDGE)]
    assert memories == [encode(Memory.of(LeaderMemory(), 2))] * len(memories)


def test_a_missing_topic_is_told_once_when_it_should_be_there(
    channel: ControlChannel, topic: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the first round nobody has created it, and nobody waits for it."""
    topic.is_there = False
    channel.start()
    channel.wait_until_read(DEADLINE_S)
    assert "no use of the control topic" not in capsys.readouterr().out
    channel.topic_made()
    wait_for_looks(topic, topic.looks + 2 * channel_module.QUICK_LOOKS)
    topic.is_there = True
    heard = Heard(channel)
    topic.put(ORDER)
    assert heard.next() == ORDER
    said = capsys.readouterr().out
    assert said.count("no use of the control topic") == 1
    assert all(word in said for word in (TOPIC, "READ", "WRITE", "DESCRIBE", "does not exist"))


def test_a_topic_that_may_not_be_read_is_told_once_and_tried_again(
    channel: ControlChannel, topic: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of it is read anew then: records of the past are not taken for news."""
    heard = Heard(channel)
    for _ in range(3):
        topic.rows.put(BrokerError("cannot read orders-control[0]: not authorized"))
    topic.put(NUDGE, ORDER)
    channel.start()
    assert heard.next() == ORDER
    assert capsys.readouterr().out.count("not authorized") == 1


def test_a_topic_that_may_not_be_written_is_told_once(
    channel: ControlChannel, topic: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    heard = Heard(channel)
    topic.fail_writing = "not authorized"
    topic.put()
    channel.start()
    heard.next()
    for _ in range(3):
        channel.write(NUDGE)
    assert capsys.readouterr().out.count("a record could not be written: not authorized") == 1


def wait_for_looks(topic: Topic, looks: int) -> None:
    pause = threading.Event()
    for _ in range(int(DEADLINE_S / 0.01)):
        if topic.looks >= looks:
            return
        pause.wait(0.01)
    raise AssertionError("the channel does not look again")
