"""The restore thread against scripted brokers: what it asks in which order, and what it tells the loop."""

from __future__ import annotations

import queue
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from assignor.model import InstanceId, TaskId, WorkerId
from kstreams_worker.group.events import OffsetsUnstable
from kstreams_worker.io.consumer import Fetched
from kstreams_worker.restore import updater
from kstreams_worker.restore.events import CaughtUp, Finished, RestoreEvent, TaskFailed
from kstreams_worker.restore.updater import Sources, Updater
from kstreams_worker.tasks.states import Role
from kstreams_worker.tasks.task import Task
from kstreams_worker.topology.records import Partition, RecordBatch
from state.memory import MemoryBackend
from state.resources import StateResources
from state.spec import RAW, StoreSpec
from state.store import KeyValueStore

CHANGELOG: Partition = ("app-store-changelog", 0)
INPUT: Partition = ("input", 0)
DEADLINE_S = 10.0
SPEC = StoreSpec("store", RAW, RAW)


class ScriptedKafka:
    """One changelog partition and one input partition, and a diary of what was asked of them.

    `written` is where the changelog ends, `stable` where its committed part ends; records are `offset -> (key, value)`.
    """

    def __init__(self, records: int, *, written: int | None = None, stable: int | None = None) -> None:
        self.records = {offset: (b"k%d" % offset, b"v%d" % offset) for offset in range(records)}
        self.written = records if written is None else written
        self.stable = self.written if stable is None else stable
        self.committed: dict[Partition, int] = {INPUT: 42}
        self.unstable_answers = 0
        self.unsettled_answers = 0
        self.low_answers = 0
        """How many more times the changelog's end is told to be 0."""
        self.diary: list[str] = []
        self.position: int | None = None
        self.ended = False

    # The reader

    def assign(self, positions: Mapping[Partition, int | None]) -> None:
        self.position = positions[CHANGELOG] or 0
        self.ended = False

    def unassign(self, partitions: Iterable[Partition]) -> None:
        assert list(partitions) == [CHANGELOG]
        self.position = None

    def fetch(self, max_records: int, timeout_s: float) -> Fetched:
        if self.position is None:
            return Fetched((), {})
        offsets = [offset for offset in sorted(self.records) if self.position <= offset < self.stable][:3]
        if not offsets:
            if self.ended:
                return Fetched((), {})
            self.ended = True
            return Fetched((), {CHANGELOG: self.stable})
        self.position = offsets[-1] + 1
        rows = [self.records[offset] for offset in offsets]
        batch = RecordBatch(
            *CHANGELOG, [key for key, _ in rows], [value for _, value in rows], [7] * len(rows), offsets
        )
        return Fetched((batch,), {})

    def close(self) -> None:
        self.diary.append("closed")

    # The other questions

    def stable_ends(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        self.diary.append("stable end")
        if self._is_low():
            return dict.fromkeys(partitions, 0)
        if self.unsettled_answers:
            self.unsettled_answers -= 1
            return dict.fromkeys(partitions, self.stable - 1)
        return dict.fromkeys(partitions, self.stable)

    def written_ends(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        self.diary.append("written end")
        if self._is_low():
            return dict.fromkeys(partitions, 0)
        return dict.fromkeys(partitions, self.written)

    def _is_low(self) -> bool:
        self.low_answers -= 1
        return self.low_answers >= 0

    def committed_offsets(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        self.diary.append("offsets")
        if self.unstable_answers:
            self.unstable_answers -= 1
            raise OffsetsUnstable
        return {partition: self.committed[partition] for partition in partitions}


class FullStore(KeyValueStore):
    """A store on a disk that is full."""

    def restore(self, *_: object, **__: object) -> None:
        raise OSError("no space left on device")


class Restoring:
    """An updater that runs on a scripted Kafka, with its events."""

    def __init__(
        self,
        kafka: ScriptedKafka,
        *,
        store_at: int | None = None,
        acceptable_lag: int = 2,
        lock_refusals: int = 0,
        disk_is_full: bool = False,
    ) -> None:
        self.kafka = kafka
        self.events: queue.SimpleQueue[RestoreEvent] = queue.SimpleQueue()
        self.store_at = store_at
        self.set_aside: list[TaskId] = []
        self.lock_refusals = lock_refusals
        self.disk_is_full = disk_is_full
        sources = Sources(
            reader=lambda: kafka,
            stable_ends=kafka.stable_ends,
            written_ends=kafka.written_ends,
            committed_offsets=kafka.committed_offsets,
            open_stores=self._open,
            close_task=Task.close,
            set_aside=self._set_aside,
            fence=lambda worker: kafka.diary.append(f"fence {worker.index}"),
            is_processing=lambda: False,
        )
        self.updater = Updater(sources, self.events.put, acceptable_lag=acceptable_lag, name="restore")

    def _open(self, task: Task) -> bool:
        if not task.stateful:
            return True
        if self.lock_refusals:
            self.lock_refusals -= 1
            return False
        store = (FullStore if self.disk_is_full else KeyValueStore)(SPEC, MemoryBackend(), StateResources())
        if self.store_at is not None:
            store.restore([], [], [], self.store_at)
        task.stores["store"] = store
        task.changelogs[CHANGELOG] = store
        return True

    def _set_aside(self, task: Task) -> None:
        self.set_aside.append(task.id)
        task.stores, task.changelogs = {}, {}
        self.store_at = None

    def event(self) -> RestoreEvent:
        return self.events.get(timeout=DEADLINE_S)


@contextmanager
def restoring(kafka: ScriptedKafka, **options: Any) -> Iterator[Restoring]:
    running = Restoring(kafka, **options)
    running.updater.start()
    try:
        yield running
    finally:
        running.updater.stop(DEADLINE_S)
    assert not running.updater.is_alive()
    assert kafka.diary[-1] == "closed"


def task(role: Role = Role.LEARNER, *, stateful: bool = True) -> Task:
    return Task(TaskId(0, 0), role, stateful, (INPUT,))


def values(of: Task) -> dict[bytes, bytes]:
    return {key: value for key, value, _ in of.stores["store"].all()}


def test_a_learner_is_restored_and_catches_up() -> None:
    """Past the end seen at its start and within the acceptable lag, a learner is ready."""
    with restoring(ScriptedKafka(8)) as run:
        learner = task()
        run.updater.follow(learner)
        assert run.event() == CaughtUp(learner)
        assert values(learner) == {b"k%d" % n: b"v%d" % n for n in range(8)}
        assert learner.lag == 0


def test_finishing_asks_for_offsets_first_and_ends_after() -> None:
    """The order that makes state and offsets belong together: offsets, then the changelog's end, then restore to it."""
    with restoring(ScriptedKafka(5)) as run:
        active = task(Role.ACTIVE)
        run.updater.finish(active)
        assert run.event() == Finished(active, {INPUT: 42})
        first_questions = [entry for entry in run.kafka.diary if entry in ("offsets", "written end")]
        assert first_questions[0] == "offsets"
        assert "written end" in first_questions
        assert len(values(active)) == 5


def test_finishing_waits_for_offsets_to_be_stable() -> None:
    """An open transaction of the last owner holds the task back, not the thread."""
    kafka = ScriptedKafka(5)
    kafka.unstable_answers = 3
    with restoring(kafka) as run:
        active = task(Role.ACTIVE)
        run.updater.finish(active)
        assert run.event() == Finished(active, {INPUT: 42})
        assert kafka.diary.count("offsets") == 4
        assert kafka.diary.index("written end") > [n for n, entry in enumerate(kafka.diary) if entry == "offsets"][-1]


def test_finishing_waits_for_the_markers_of_the_last_transaction() -> None:
    """While the last stable offset is behind the high watermark, records may still become visible."""
    kafka = ScriptedKafka(5)
    with restoring(kafka) as run:
        standby = task(Role.STANDBY)
        run.updater.follow(standby)
        assert run.event() == CaughtUp(standby)
        kafka.unsettled_answers = 2
        asked_before = kafka.diary.count("written end")
        run.updater.finish(standby)
        assert run.event() == Finished(standby, {INPUT: 42})
        assert kafka.diary.count("written end") - asked_before >= 2


def test_the_end_may_be_a_control_record() -> None:
    """A transaction's marker has an offset but no record: the end is reached all the same."""
    with restoring(ScriptedKafka(5, written=6)) as run:
        active = task(Role.ACTIVE)
        run.updater.finish(active)
        assert run.event() == Finished(active, {INPUT: 42})


def test_dead_owners_are_fenced_before_offsets_are_asked_for() -> None:
    """Their open transactions are ended first, so that nobody waits for them to time out."""
    with restoring(ScriptedKafka(2)) as run:
        active = task(Role.ACTIVE)
        run.updater.finish(active, [WorkerId(InstanceId(bytes(16)), 3)])
        assert isinstance(run.event(), Finished)
        assert run.kafka.diary.index("fence 3") < run.kafka.diary.index("offsets")


def test_a_stateless_task_only_needs_its_offsets() -> None:
    """Nothing is opened or restored for it."""
    with restoring(ScriptedKafka(0)) as run:
        stateless = task(Role.ACTIVE, stateful=False)
        run.updater.finish(stateless)
        assert run.event() == Finished(stateless, {INPUT: 42})
        assert "written end" not in run.kafka.diary


def test_it_waits_for_another_worker_to_close_the_stores() -> None:
    """In a move between two workers of an instance the files may be locked for a moment."""
    with restoring(ScriptedKafka(4), lock_refusals=3) as run:
        active = task(Role.ACTIVE)
        run.updater.finish(active)
        assert run.event() == Finished(active, {INPUT: 42})


def test_state_ahead_of_its_changelog_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic was deleted and created anew: what the store holds belongs to another history."""
    monkeypatch.setattr(updater, "AHEAD_S", 0.05)
    with restoring(ScriptedKafka(4), store_at=900) as run:
        active = task(Role.ACTIVE)
        run.updater.finish(active)
        assert run.event() == Finished(active, {INPUT: 42})
        assert run.set_aside == [active.id]
        assert len(values(active)) == 4


@pytest.mark.parametrize("finishing", [True, False])
def test_an_end_that_is_too_low_for_a_moment_costs_no_state(finishing: bool) -> None:
    """A broker tells one when it has just begun to lead a partition."""
    kafka = ScriptedKafka(8)
    kafka.low_answers = 4
    with restoring(kafka, store_at=8) as run:
        some = task(Role.ACTIVE if finishing else Role.LEARNER)
        (run.updater.finish if finishing else run.updater.follow)(some)
        assert run.event() == (Finished(some, {INPUT: 42}) if finishing else CaughtUp(some))
        assert run.set_aside == []
        assert kafka.low_answers < 0


def test_a_task_that_cannot_be_written_is_reported() -> None:
    """A full disk must end the worker, not leave a task that never becomes ready."""
    with restoring(ScriptedKafka(4), disk_is_full=True) as run:
        learner = task()
        run.updater.follow(learner)
        failed = run.event()
        assert isinstance(failed, TaskFailed)
        assert failed.task is learner
        assert "no space left" in str(failed.error)


@pytest.mark.parametrize("before_it_is_ready", [True, False])
def test_a_dropped_task_is_closed(before_it_is_ready: bool) -> None:
    """Whatever it was doing, its stores are closed and nothing more is heard of it."""
    with restoring(ScriptedKafka(4)) as run:
        learner = task()
        run.updater.follow(learner)
        if not before_it_is_ready:
            run.event()
        run.updater.drop(learner)
        other = Task(TaskId(0, 1), Role.STANDBY, True, (INPUT,))
        run.updater.follow(other)
        events = [run.event()]
        while events[-1] != CaughtUp(other):
            events.append(run.event())
        assert learner.stores == {}
