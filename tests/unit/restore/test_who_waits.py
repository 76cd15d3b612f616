"""Who is restored first, and who closes stores: nobody whose task stands still waits for what is not his."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

import pytest
from harness.waiting import until

from assignor.model import TaskId
from kstreams_worker.io.consumer import Fetched
from kstreams_worker.restore.events import CaughtUp, Closed, Finished, RestoreEvent
from kstreams_worker.restore.give_way import REST_MAX_S, SHARED_SWITCH_S, GiveWay
from kstreams_worker.restore.updater import MAX_RECORDS, SHARED_RECORDS, Sources, Updater
from kstreams_worker.tasks.states import Role
from kstreams_worker.tasks.task import Task
from kstreams_worker.topology.records import Partition, RecordBatch
from state.memory import MemoryBackend
from state.resources import StateResources
from state.spec import RAW, StoreSpec
from state.store import KeyValueStore
from state.write_behind import Rest

DEADLINE_S = 10.0
RECORDS = 50
WORKED_S = 0.01


def changelog(task: Task) -> Partition:
    return ("app-store-changelog", task.id.partition)


class SlowKafka:
    """Changelogs of `RECORDS` records each, read one at a time; a test says when there is one to be read."""

    def __init__(self) -> None:
        self.positions: dict[Partition, int] = {}
        self.read: list[Partition] = []
        self.allowed = threading.Semaphore(0)
        self.unallowed_reads = threading.Event()
        self.fetches: list[tuple[int, float, float]] = []
        """Of those that found something: how much was asked for, beginning, end."""
        self.switch_intervals_s: set[float] = set()

    def assign(self, positions: Mapping[Partition, int | None]) -> None:
        assert not self.positions.keys() & positions.keys()
        self.positions |= {partition: position or 0 for partition, position in positions.items()}

    def unassign(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            del self.positions[partition]

    def fetch(self, max_records: int, timeout_s: float) -> Fetched:
        started = time.monotonic()
        fetched = self._fetch(timeout_s)
        if fetched.batches:
            self.fetches.append((max_records, started, time.monotonic()))
            self.switch_intervals_s.add(sys.getswitchinterval())
        return fetched

    def _fetch(self, timeout_s: float) -> Fetched:
        left = [partition for partition, position in self.positions.items() if position < RECORDS]
        if not left:
            return Fetched((), {})
        if not self.allowed.acquire(timeout=timeout_s):
            self.unallowed_reads.set()
            return Fetched((), {})
        partition = left[0]
        offset = self.positions[partition]
        self.positions[partition] += 1
        self.read.append(partition)
        return Fetched((RecordBatch(*partition, [b"%d" % offset], [b"v"], [7], [offset]),), {})

    def ends(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        return dict.fromkeys(partitions, RECORDS)

    def committed_offsets(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        return dict.fromkeys(partitions, 42)

    def close(self) -> None:
        """Nothing to close."""


class Files:
    """Stores in memory. The closing of a task's waits until the test lets it happen."""

    def __init__(self) -> None:
        self.may_close = threading.Event()
        self.held: set[TaskId] = set()
        self.rests_s: list[float] = []
        """How long the closing was made to wait after a hundredth of a second of work."""
        self.switch_intervals_s: set[float] = set()

    def open(self, task: Task) -> bool:
        assert task.id not in self.held, "opened while it is still open"
        self.held.add(task.id)
        store = KeyValueStore(StoreSpec("store", RAW, RAW), MemoryBackend(), StateResources())
        task.stores["store"] = task.changelogs[changelog(task)] = store
        return True

    def close(self, task: Task, rest: Rest) -> None:
        assert self.may_close.wait(DEADLINE_S)
        self.switch_intervals_s.add(sys.getswitchinterval())
        started = time.monotonic()
        rest(WORKED_S)
        self.rests_s.append(time.monotonic() - started)
        task.close(rest)
        self.held.discard(task.id)


class Scene:
    """An updater at work."""

    def __init__(self) -> None:
        self.kafka = SlowKafka()
        self.files = Files()
        self.is_processing = False
        self.events: queue.SimpleQueue[RestoreEvent] = queue.SimpleQueue()
        sources = Sources(
            reader=lambda: self.kafka,
            stable_ends=self.kafka.ends,
            written_ends=self.kafka.ends,
            committed_offsets=self.kafka.committed_offsets,
            open_stores=self.files.open,
            close_task=self.files.close,
            set_aside=lambda task: pytest.fail(f"{task.id} is set aside"),
            fence=lambda worker: pytest.fail(f"{worker} is fenced"),
            is_processing=lambda: self.is_processing,
        )
        self.updater = Updater(sources, self.events.put, acceptable_lag=0, name="restore")

    def event(self) -> RestoreEvent:
        return self.events.get(timeout=DEADLINE_S)


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    scene.updater.start()
    yield scene
    scene.files.may_close.set()
    scene.updater.stop(DEADLINE_S)
    assert not scene.updater.is_alive()


def task(partition: int, role: Role = Role.LEARNER) -> Task:
    return Task(TaskId(0, partition), role, True, (("input", partition),))


def test_a_task_that_stands_still_is_restored_before_all_others(scene: Scene) -> None:
    """A learner with a long changelog has begun; from when a task is to be finished, only its records are read."""
    learner, active = task(0), task(1, Role.ACTIVE)
    scene.updater.follow(learner)
    scene.kafka.allowed.release(10)
    assert scene.kafka.unallowed_reads.wait(DEADLINE_S)
    assert scene.kafka.read == [changelog(learner)] * 10

    scene.updater.finish(active)
    scene.kafka.allowed.release(2 * RECORDS)
    assert scene.event() == Finished(active, {("input", 1): 42})
    of_active = [number for number, partition in enumerate(scene.kafka.read) if partition == changelog(active)]
    assert len(of_active) == RECORDS
    assert of_active == list(range(of_active[0], of_active[0] + RECORDS)), "one after the other"

    assert scene.event() == CaughtUp(learner)
    assert scene.kafka.read.count(changelog(learner)) == RECORDS, "it goes on where it was"


def test_closing_holds_nobody_up(scene: Scene) -> None:
    """A task that was given up is still being closed; another one is finished meanwhile."""
    given_up, active = task(0, Role.ACTIVE), task(1, Role.ACTIVE)
    scene.files.open(given_up)
    scene.updater.close(given_up)
    scene.updater.finish(active)
    scene.kafka.allowed.release(RECORDS)
    assert scene.event() == Finished(active, {("input", 1): 42})

    scene.files.may_close.set()
    assert scene.event() == Closed(given_up.id, None)
    assert given_up.stores == {}


def test_a_task_that_comes_back_waits_for_its_closing(scene: Scene) -> None:
    """Its new stores are opened once the old ones have let go of their files."""
    before, again = task(0, Role.ACTIVE), task(0, Role.ACTIVE)
    scene.files.open(before)
    scene.updater.close(before)
    scene.updater.finish(again)
    scene.kafka.allowed.release(RECORDS)
    scene.files.may_close.set()
    assert scene.event() == Closed(before.id, None)
    assert scene.event() == Finished(again, {("input", 0): 42})


def test_an_unexpected_error_in_closing_is_told(scene: Scene) -> None:
    """What cannot be flushed is in the changelog, and is no error; anything else is a mistake, and must not be lost."""
    unopened = task(0, Role.ACTIVE)
    error = RuntimeError("a mistake")
    unopened.stores["store"] = Unclosable(error)  # type: ignore[assignment]
    scene.files.may_close.set()
    scene.updater.close(unopened)
    assert scene.event() == Closed(unopened.id, error)


class Unclosable:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def close(self, rest: Rest) -> None:
        raise self._error


def test_a_learner_leaves_the_processing_its_time(scene: Scene) -> None:
    """It takes a little at a time, and after each time lets the worker's own tasks run for as long."""
    scene.is_processing = True
    scene.kafka.allowed.release(RECORDS)
    learner = task(0)
    scene.updater.follow(learner)
    assert scene.event() == CaughtUp(learner)
    assert {most for most, _, _ in scene.kafka.fetches} == {SHARED_RECORDS}
    assert list(scene.kafka.switch_intervals_s) == [pytest.approx(SHARED_SWITCH_S)]
    for (_, began, ended), (_, next_began, _) in pairwise(scene.kafka.fetches):
        assert next_began - ended >= ended - began


def test_a_learner_of_a_worker_without_tasks_takes_all_it_can(scene: Scene) -> None:
    """There is nobody to give way to."""
    default_s = sys.getswitchinterval()
    scene.kafka.allowed.release(RECORDS)
    learner = task(0)
    scene.updater.follow(learner)
    assert scene.event() == CaughtUp(learner)
    assert {most for most, _, _ in scene.kafka.fetches} == {MAX_RECORDS}
    assert scene.kafka.switch_intervals_s == {default_s}


def test_a_task_that_stands_still_is_restored_without_rests(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is gained by letting it wait; but what is read at a time stays little, for the worker's other tasks."""
    monkeypatch.setattr(GiveWay, "rest_s", lambda *_: pytest.fail("it rests"))
    scene.is_processing = True
    scene.kafka.allowed.release(RECORDS)
    active = task(1, Role.ACTIVE)
    scene.updater.finish(active)
    assert scene.event() == Finished(active, {("input", 1): 42})
    assert {most for most, _, _ in scene.kafka.fetches} == {SHARED_RECORDS}
    assert list(scene.kafka.switch_intervals_s) == [pytest.approx(SHARED_SWITCH_S)]


def test_processing_alone_has_the_lock_as_ever(scene: Scene) -> None:
    """Once the last task was given back the restore thread waits for commands, and holds nobody to the short interval."""
    default_s = sys.getswitchinterval()
    scene.is_processing = True
    scene.kafka.allowed.release(RECORDS)
    active = task(1, Role.ACTIVE)
    scene.updater.finish(active)
    assert scene.event() == Finished(active, {("input", 1): 42})
    assert sys.getswitchinterval() == pytest.approx(default_s)


def test_closing_leaves_the_processing_its_time(scene: Scene) -> None:
    """Tasks that were given up are closed beside those that this worker still has."""
    default_s = sys.getswitchinterval()
    scene.is_processing = True
    given_up = task(0, Role.ACTIVE)
    scene.files.open(given_up)
    scene.files.may_close.set()
    scene.updater.close(given_up)
    assert scene.event() == Closed(given_up.id, None)
    assert list(scene.files.switch_intervals_s) == [pytest.approx(SHARED_SWITCH_S)]
    assert scene.files.rests_s[0] >= WORKED_S
    assert sys.getswitchinterval() == pytest.approx(default_s)


def test_the_closing_of_a_task_that_comes_back_does_not_rest(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands still until then, and that counts for more than the processing of the others."""
    scene.is_processing = True
    before, again = task(0, Role.ACTIVE), task(0, Role.ACTIVE)
    scene.files.open(before)
    scene.updater.close(before)
    scene.updater.finish(again)
    until(lambda: again.id in scene.updater._wanted_back, "the restore thread waits for the closing")
    scene.kafka.allowed.release(RECORDS)
    monkeypatch.setattr(GiveWay, "rest", lambda *_: pytest.fail("it rests"))
    scene.files.may_close.set()
    assert scene.event() == Closed(before.id, None)
    assert scene.event() == Finished(again, {("input", 0): 42})


def test_nothing_rests_where_nothing_is_processed() -> None:
    """And however long a part of the work took, the rest after it has a limit."""
    processing = GiveWay(lambda: True)
    assert processing.rest_s(WORKED_S) == WORKED_S
    assert processing.rest_s(1_000.0) == REST_MAX_S
    assert GiveWay(lambda: False).rest_s(WORKED_S) == 0.0


def test_threads_share_until_the_last_has_ended() -> None:
    """The interval is the process's: it goes back only when nobody works beside the processing any more."""
    default_s = sys.getswitchinterval()
    way = GiveWay(lambda: True)
    with way.sharing("one"):
        with way.sharing("another"):
            pass
        assert sys.getswitchinterval() == pytest.approx(SHARED_SWITCH_S)
    assert sys.getswitchinterval() == pytest.approx(default_s)
