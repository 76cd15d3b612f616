"""Commits overlap with processing: what is under way, what is held back, what is undone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from assignor.model import TaskId
from kstreams_worker import StreamsBuilder
from kstreams_worker.group.events import GroupGeneration
from kstreams_worker.io.consumer import Fetched
from kstreams_worker.io.failures import ProducerLost, TransactionAborted
from kstreams_worker.io.producer import Generation
from kstreams_worker.observe.metrics import WorkerMetrics
from kstreams_worker.runtime import processor
from kstreams_worker.runtime.processor import CommitGate, Processor
from kstreams_worker.tasks.states import Role, TaskEvent
from kstreams_worker.tasks.task import Task
from kstreams_worker.topology.compile import compile_subtopology
from kstreams_worker.topology.records import Headers, OutputRow, Partition, RecordBatch
from state import StateResources, open_store

INPUT = ("words", 0)
CHANGELOG = ("app-counts-changelog", 0)
ME = GroupGeneration(1, "me")
DEADLINE_S = 30


class Input:
    """Gives the batches that the test puts in."""

    def __init__(self) -> None:
        self.batches: list[RecordBatch] = []
        self.assigned: dict[Partition, int | None] = {}
        self.asked: list[int] = []
        """How many records each fetch asked for."""
        self._next = 0

    def put(self, *words: bytes) -> None:
        offsets = list(range(self._next, self._next + len(words)))
        self._next += len(words)
        self.batches.append(RecordBatch(*INPUT, list(words), [b""] * len(words), offsets, offsets))

    def assign(self, positions: Mapping[Partition, int | None]) -> None:
        self.assigned.update(positions)

    def unassign(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self.assigned.pop(partition, None)

    rewind = assign

    def fetch(self, max_records: int, timeout_s: float) -> Fetched:
        self.asked.append(max_records)
        batches, self.batches = tuple(self.batches), []
        return Fetched(batches, {})

    def end_offset(self, partition: Partition) -> int | None:
        return self._next

    def close(self) -> None: ...


class Broker:
    """Takes commits when the test says so: in the place of a producer, with its contract."""

    held_rows = 0

    def __init__(self) -> None:
        self.answer: Exception | None = None
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.committed: list[tuple[dict[Partition, int], list[tuple[str, OutputRow]]]] = []
        self.gate_calls: list[str] = []
        self._sent: list[tuple[str, OutputRow]] = []
        self._reports: list[Callable[[], None]] = []
        self._ending: list[tuple[str, OutputRow]] = []
        self._changelog_end = -1
        self._offsets: dict[Partition, int] = {}

    def send(self, topic: str, rows: Sequence[OutputRow], partition: int = -1) -> None:
        self._sent += [(topic, row) for row in rows]

    def send_tracked(
        self, topic: str, rows: Sequence[OutputRow], partition: int, delivered: Callable[[int], None]
    ) -> None:
        self.send(topic, rows, partition)
        self._changelog_end += len(rows)
        self._reports.append(lambda end=self._changelog_end: delivered(end))  # type: ignore[misc]

    def send_with_headers(self, topic: str, row: OutputRow, headers: Headers) -> None:
        self.send(topic, [row])

    def begin_commit(self) -> None:
        self._ending, self._sent = self._sent, []

    def add_offsets(self, offsets: Mapping[Partition, int], generation: Generation) -> None:
        assert generation == ME
        self._offsets = dict(offsets)

    def commit(self) -> None:
        self.asked.set()
        assert self.may_answer.wait(DEADLINE_S)
        if self.answer is not None:
            raise self.answer
        for report in self._reports:
            report()
        self._reports.clear()
        self.committed.append((self._offsets, self._ending))

    def end_commit(self) -> None: ...

    def abort(self) -> None:
        self._sent, self._ending = [], []
        self._reports.clear()

    def close(self) -> None: ...


class Setting:
    def __init__(self, state: Path, offsets_taken: bool | None) -> None:
        builder = StreamsBuilder()
        words = builder.stream("words", key="bytes", value="bytes")
        words.group_by_key().count(materialized="counts").to_stream().to("totals")
        sub = builder.build().subtopologies[0]
        self.input, self.broker = Input(), Broker()
        self.task = Task(TaskId(0, 0), Role.ACTIVE, True, (INPUT,))
        self.store = open_store(sub.stores[0], state / "counts", StateResources())
        self.task.stores["counts"] = self.store
        self.task.changelogs[CHANGELOG] = self.store
        program = compile_subtopology(sub, "app", cached=False).bind(self.task.stores, lambda *_: None)
        self.task.program = program
        for event in (TaskEvent.PROMOTE, TaskEvent.STARTED):
            self.task.machine.fire(event)
        self.gate: list[str] = []
        self.membership: GroupGeneration | None = ME

        def begin() -> GroupGeneration | None:
            self.gate.append("begin")
            return self.membership

        def commit_offsets(_offsets: Mapping[Partition, int], generation: GroupGeneration) -> bool:
            self.gate.append("offsets")
            assert generation == ME
            return bool(offsets_taken)

        self.processor = Processor(
            self.input,
            self.broker,
            CommitGate(begin, lambda: self.gate.append("end"), None if offsets_taken is None else commit_offsets),
            WorkerMetrics(),
            name="test",
            log_early=True,
            max_records=10 * processor.FIRST_TURN_RECORDS,
            max_dirty_bytes=1 << 20,
        )
        self.processor.start(self.task, {})

    def process(self, *words: bytes) -> None:
        self.input.put(*words)
        self.processor.turn(0)

    def counts(self) -> dict[bytes, int]:
        return {key: count for key, count, _ in self.store.all()}


@pytest.fixture(params=[None], ids=["exactly once"])
def setting(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Setting]:
    made = Setting(tmp_path, request.param)
    yield made
    made.broker.may_answer.set()
    made.processor.close()
    made.task.close()


def test_records_are_processed_while_a_commit_is_under_way(setting: Setting) -> None:
    setting.process(b"a", b"b")
    assert setting.processor.begin_commit()
    assert setting.broker.asked.wait(DEADLINE_S)
    setting.process(b"a")
    assert setting.counts() == {b"a": 2, b"b": 1}
    assert setting.processor.settle(), "nothing is known yet"
    assert not setting.processor.begin_commit(), "one at a time"
    setting.broker.may_answer.set()
    assert setting.processor.settle(wait=True)
    assert setting.store.peek_committed(b"a") == (1, 0)
    assert setting.store.changelog_offset == 2
    assert setting.task.committed == {INPUT: 2}
    assert setting.processor.commit()
    assert [offsets for offsets, _ in setting.broker.committed] == [{INPUT: 2}, {INPUT: 3}]
    assert [(topic, row[0]) for topic, row in setting.broker.committed[1][1]] == [
        ("totals", b"a"),
        (CHANGELOG[0], b"a"),
    ]
    assert setting.store.peek_committed(b"a") == (2, 2)
    assert setting.gate == ["begin", "end"] * 2


def test_a_round_waits_for_the_offsets_only(setting: Setting) -> None:
    """The broker looks at the generation when it takes them, and not again when the transaction ends."""
    setting.process(b"a")
    assert setting.processor.begin_commit()
    assert setting.broker.asked.wait(DEADLINE_S)
    assert setting.gate == ["begin", "end"]
    assert setting.broker.committed == []


@pytest.mark.parametrize("setting", [True], ids=["at least once"], indirect=True)
def test_without_a_transaction_a_round_waits_for_all_of_a_commit(setting: Setting) -> None:
    """The offsets come last."""
    setting.process(b"a")
    assert setting.processor.begin_commit()
    assert setting.broker.asked.wait(DEADLINE_S)
    assert setting.gate == ["begin"]
    setting.broker.may_answer.set()
    assert setting.processor.settle(wait=True)
    assert setting.gate == ["begin", "offsets", "end"]


def test_without_a_membership_nothing_is_committed(setting: Setting) -> None:
    """It is kept for later, or dropped when the worker hears that it is out of the group."""
    setting.broker.may_answer.set()
    setting.membership = None
    setting.process(b"a")
    assert not setting.processor.commit()
    assert setting.gate == ["begin"]
    assert setting.counts() == {b"a": 1}
    assert setting.store.peek_committed(b"a") is None
    setting.membership = ME
    assert setting.processor.commit()
    assert setting.store.peek_committed(b"a") == (1, 0)


def test_a_failed_commit_undoes_what_was_processed_meanwhile(setting: Setting) -> None:
    setting.broker.may_answer.set()
    setting.process(b"a")
    assert setting.processor.commit()
    setting.broker.may_answer.clear()
    setting.process(b"a")
    assert setting.processor.begin_commit()
    setting.process(b"a", b"c")
    setting.broker.answer = TransactionAborted("for the test")
    setting.broker.may_answer.set()
    assert not setting.processor.settle(wait=True)
    assert setting.counts() == {b"a": 1}
    assert setting.task.positions == {}
    assert setting.input.assigned == {INPUT: 1}, "read again from the last commit"
    assert setting.gate == ["begin", "end"] * 2
    assert setting.processor.commit(), "nothing is open"


def test_a_commit_of_unknown_outcome_leaves_nothing_under_way(setting: Setting) -> None:
    setting.process(b"a")
    assert setting.processor.begin_commit()
    setting.broker.answer = ProducerLost("for the test")
    setting.broker.may_answer.set()
    with pytest.raises(ProducerLost):
        setting.processor.settle(wait=True)
    setting.processor.abort()
    setting.processor.stop([setting.task])
    assert setting.counts() == {}


def test_changes_go_to_the_changelog_before_the_commit_asks(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit sends the rest; the store stands for the last of all of them."""
    monkeypatch.setattr(processor, "EARLY_ENTRIES", 2)
    setting.broker.may_answer.set()
    setting.process(b"a", b"b")
    assert not setting.store.dirty
    setting.process(b"b")
    assert setting.store.dirty.keys() == {b"b"}
    assert setting.processor.commit()
    [(_, sent)] = setting.broker.committed
    assert [row[:2] for topic, row in sent if topic == CHANGELOG[0]] == [
        (b"a", (1).to_bytes(8, "big")),
        (b"b", (1).to_bytes(8, "big")),
        (b"b", (2).to_bytes(8, "big")),
    ]
    assert setting.store.changelog_offset == 3
    setting.process(b"a", b"c")
    setting.processor.abort()
    assert setting.counts() == {b"a": 1, b"b": 2}
    assert setting.processor.commit()
    assert len(setting.broker.committed) == 1


@pytest.mark.parametrize("setting", [False], ids=["at least once"], indirect=True)
def test_offsets_that_are_not_taken_are_committed_later(setting: Setting) -> None:
    """The records are on the brokers, so the stores stand for them; only the input position is still the old one."""
    setting.broker.may_answer.set()
    setting.process(b"a")
    assert not setting.processor.commit()
    assert setting.store.peek_committed(b"a") == (1, 0)
    assert setting.task.committed == {INPUT: None}
    assert setting.task.has_progress


def test_the_first_turn_after_a_task_was_taken_over_is_short(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns grow with what the last one managed; a new task's cache is cold, and its first commit is waited for."""
    monkeypatch.setattr(processor, "TURN_S", DEADLINE_S)
    for _ in range(2):
        setting.input.put(*[b"word"] * processor.FIRST_TURN_RECORDS)
        setting.processor.turn(0)
    assert setting.input.asked[-1] > processor.FIRST_TURN_RECORDS
    taken_over = Task(TaskId(0, 1), Role.ACTIVE, True, (("words", 1),))
    setting.processor.start(taken_over, {})
    setting.processor.turn(0)
    assert setting.input.asked[-1] == processor.FIRST_TURN_RECORDS
