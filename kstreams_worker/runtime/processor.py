"""The data path of one worker: read batches, run them through the tasks' compiled chains, commit.

A commit takes a few round trips to the brokers, and processing does not wait for them: `begin_commit` hands over what there
is to commit, a thread waits for the brokers, and `settle` takes over the outcome while new records go on being processed.
At most one commit is under way. `commit` does all of it at once, for the moments when nothing may be left open.

Under exactly_once_v2 a commit is one transaction of outputs, changelog records and input offsets; only when it is committed
do the stores write, values and changelog offset together. Under at_least_once the outputs and the changelog are flushed
first, then the offsets are committed, then the stores write. Either way RocksDB never holds what is not committed.

Owned by the processing loop; no other thread may call it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from kstreams_worker.group.events import GroupGeneration
from kstreams_worker.io.call_thread import CallThread
from kstreams_worker.io.consumer import Fetched
from kstreams_worker.io.failures import TransactionAborted
from kstreams_worker.io.producer import RecordProducer
from kstreams_worker.observe.metrics import WorkerMetrics
from kstreams_worker.tasks.task import Task
from kstreams_worker.topology.records import Partition, RecordBatch

log = structlog.get_logger(__name__)

HELD_ROWS_MAX = 200_000
"""Rows that may wait for the transaction under way to end. Then processing waits, too."""

TURN_S = 0.05
"""About how long one turn may take: a round waits for the loop, and a task that is being handed over with it."""
FIRST_TURN_RECORDS = 500
"""Of the first turn, and of the first after a task was taken over: its store's cache is cold, so that a record takes several
times as long as the last turn's did, and its first commit is waited for."""
EARLY_ENTRIES = 500
"""Changed keys of a store that are sent to its changelog before a commit asks for it."""
BACKLOG_RECORDS = 2_000
"""A turn of more records than this works off a backlog: then a key's changes are gathered, which saves work."""
TURN_GROWTH_MAX = 4
"""By how much a turn may be larger than the last one: how long a record takes varies."""


class InputReader(Protocol):
    """What the processor needs of a consumer."""

    def assign(self, positions: Mapping[Partition, int | None]) -> None: ...
    def unassign(self, partitions: Iterable[Partition]) -> None: ...
    def rewind(self, positions: Mapping[Partition, int | None]) -> None: ...
    def fetch(self, max_records: int, timeout_s: float) -> Fetched: ...
    def end_offset(self, partition: Partition) -> int | None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class CommitGate:
    """The group's say in a commit: whether the broker would take offsets now, and as whom."""

    begin: Callable[[], GroupGeneration | None]
    """The membership to commit as; a round then waits until `end`. None: a round is on, and the broker would refuse, or this
    worker is out of the group."""
    end: Callable[[], None]
    commit_offsets: Callable[[Mapping[Partition, int], GroupGeneration], bool] | None
    """At least once: commit the offsets; False when the broker would not take them just now. None: transactions do it."""


@dataclass(frozen=True)
class _Commit:
    """A commit under way."""

    positions: Mapping[Task, Mapping[Partition, int]]
    changelog_ends: Mapping[Partition, int]
    """The offset of each changelog partition's last record in this commit; filled in before the outcome is known."""
    outcome: Future[bool]
    started: float
    oldest_ms: int | None
    """When the first of its input records was made."""


class Processor:
    """The running tasks of a worker and what moves records through them."""

    def __init__(
        self,
        reader: InputReader,
        producer: RecordProducer,
        gate: CommitGate,
        metrics: WorkerMetrics,
        *,
        name: str,
        log_early: bool,
        max_records: int,
        max_dirty_bytes: int,
    ) -> None:
        self._reader = reader
        self._producer = producer
        self._gate = gate
        self._metrics = metrics
        self._max_records = max_records
        self._turn_records = min(FIRST_TURN_RECORDS, max_records)
        self._max_dirty_bytes = max_dirty_bytes
        self._running: dict[Partition, Task] = {}
        self._oldest_ms: int | None = None
        self._committer = CallThread(f"{name}-commit")
        self._under_way: _Commit | None = None
        self._log_early = log_early
        self._changelog_ends: dict[Partition, int] = {}
        self._logged: dict[Partition, int] = {}
        """Rows sent to each changelog partition for the next commit."""

    @property
    def is_processing(self) -> bool:
        """Whether any task runs."""
        return bool(self._running)

    @property
    def running(self) -> list[Task]:
        return list(dict.fromkeys(self._running.values()))

    def start(self, task: Task, offsets: Mapping[Partition, int]) -> None:
        """Process a task whose state is complete, from these committed offsets on."""
        self._reader.assign(task.start_at(offsets))
        self._running.update(dict.fromkeys(task.inputs, task))
        self._turn_records = min(FIRST_TURN_RECORDS, self._turn_records)

    def stop(self, tasks: Iterable[Task]) -> None:
        """Read no more for these tasks. What they have not committed is rolled back: commit or abort before."""
        assert self._under_way is None, "tasks are not stopped while their commit is under way"
        for task in tasks:
            self._reader.unassign(task.inputs)
            self._roll_back(task)
            for partition in task.inputs:
                self._running.pop(partition, None)

    def resume(self, task: Task) -> None:
        """Go on with a stopped task from its last commit."""
        self._reader.assign(task.committed)
        self._running.update(dict.fromkeys(task.inputs, task))

    def turn(self, timeout_s: float) -> int:
        """Process what is there, waiting up to `timeout_s` for the first record. Returns the number of records.

        With slow functions it takes fewer records, so that what else the loop has to do is never far away.

        Raises RecordError where a record cannot be processed, BrokerError, ProducerLost.
        """
        fetched = self._reader.fetch(self._turn_records, timeout_s)
        started = time.perf_counter()
        for batch in fetched.batches:
            task = self._running.get((batch.topic, batch.partition))
            if task is not None:
                self._process(task, batch)
        records = sum(map(len, fetched.batches))
        if records:
            fitting = int(records * TURN_S / max(time.perf_counter() - started, 1e-6))
            self._turn_records = max(1, min(fitting, TURN_GROWTH_MAX * self._turn_records, self._max_records))
        if self._log_early and records < BACKLOG_RECORDS and self._under_way is None:
            self._log_what_has_gathered()
        return records

    def _process(self, task: Task, batch: RecordBatch) -> None:
        program = task.program
        assert program is not None, f"task {task.id} runs without a program"
        started = time.perf_counter()
        program.process(batch)
        with _aborts_left_to_the_commit():
            program.send_outputs(self._producer.send)
        task.positions[batch.topic, batch.partition] = batch.offsets[-1] + 1
        task.records_processed += len(batch)
        if self._oldest_ms is None:
            self._oldest_ms = batch.timestamps_ms[0]
        self._metrics.process_seconds.observe(time.perf_counter() - started)
        self._metrics.records_processed_total.labels(batch.topic).inc(len(batch))

    def _log_what_has_gathered(self) -> None:
        """Where every update goes out at once, a commit is to have little left to do: it would hold up the updates."""
        with _aborts_left_to_the_commit():
            for task in self.running:
                if any(len(store.dirty) >= EARLY_ENTRIES for store in task.changelogs.values()):
                    self._log_changes(task)

    @property
    def buffer_is_full(self) -> bool:
        """Whether what is uncommitted has reached its limit, which calls for an early commit."""
        dirty_bytes = sum(task.dirty_bytes for task in self.running)
        return dirty_bytes >= self._max_dirty_bytes or self._producer.held_rows >= HELD_ROWS_MAX

    # -- commits ----------------------------------------------------------------------------------------------------

    def commit(self) -> bool:
        """Commit all tasks and wait for it. False when it has to wait for the group, or failed. Raises as `settle`."""
        self.settle(wait=True)
        return self.begin_commit() and self.settle(wait=True)

    def begin_commit(self) -> bool:
        """Start to commit all tasks. False when one is under way, or it has to wait for the group, or was rolled back."""
        if self._under_way is not None:
            return False
        tasks = [task for task in self.running if task.has_progress]
        if not tasks:
            return True
        generation = self._gate.begin()
        if generation is None:
            return False
        started = time.perf_counter()
        try:
            for task in tasks:
                self._send_task(task)
            self._producer.begin_commit()
        except TransactionAborted as aborted:
            self._gate.end()
            self._abort_for(aborted)
            return False
        except BaseException:
            self._gate.end()
            raise
        positions = {task: dict(task.positions) for task in tasks}
        outcome = self._committer.submit(partial(self._commit, positions, generation))
        self._under_way = _Commit(positions, self._changelog_ends, outcome, started, self._oldest_ms)
        self._changelog_ends, self._logged, self._oldest_ms = {}, {}, None
        return True

    def _commit(self, positions: Mapping[Task, Mapping[Partition, int]], generation: GroupGeneration) -> bool:
        """On the committing thread. Whether the offsets are committed."""
        offsets = {partition: offset for of_task in positions.values() for partition, offset in of_task.items()}
        try:
            if self._gate.commit_offsets is not None:
                self._producer.commit()
                return self._gate.commit_offsets(offsets, generation)
            self._producer.add_offsets(offsets, generation)
        finally:
            self._gate.end()
        # No round has to wait for this: the offsets are in the transaction.
        self._producer.commit()
        return True

    def settle(self, *, wait: bool = False) -> bool:
        """Take over the outcome of the commit under way, if it is known or `wait` says to wait for it.

        False when the commit failed: it was rolled back, or (at least once) the offsets were not taken.
        Raises BrokerError, ProducerLost, StateError.
        """
        commit = self._under_way
        if commit is None or not (wait or commit.outcome.done()):
            return True
        self._under_way = None
        try:
            committed = commit.outcome.result()
        except TransactionAborted as aborted:
            self._abort_for(aborted)
            return False
        for task, positions in commit.positions.items():
            self._commit_stores(task, commit.changelog_ends)
            if committed:
                task.committed.update(positions)
        self._observe_commit(commit)
        with _aborts_left_to_the_commit():
            self._producer.end_commit()
        return committed

    @staticmethod
    def _commit_stores(task: Task, changelog_ends: Mapping[Partition, int]) -> None:
        for partition, store in task.changelogs.items():
            end = changelog_ends.get(partition)
            store.commit(None if end is None else end + 1)
        for store in task.unlogged_stores:
            store.commit(None)

    def _send_task(self, task: Task) -> None:
        """Hand over what the task has for this commit: cached updates that go on now, outputs, changelog records."""
        assert task.program is not None
        task.program.flush()
        task.program.send_outputs(self._producer.send)
        self._log_changes(task)
        for store in task.unlogged_stores:
            store.stage()

    def _log_changes(self, task: Task) -> None:
        for (topic, partition), store in task.changelogs.items():
            rows, sent = store.stage(), self._logged.get((topic, partition), 0)
            self._logged[topic, partition] = len(rows)
            tell_end = partial(self._changelog_ends.__setitem__, (topic, partition))
            self._producer.send_tracked(topic, rows[sent:] if sent else rows, partition, tell_end)

    def _observe_commit(self, commit: _Commit) -> None:
        self._metrics.commit_seconds.observe(time.perf_counter() - commit.started)
        if commit.oldest_ms is not None:
            self._metrics.e2e_latency_seconds.observe(max(0.0, time.time() - commit.oldest_ms / 1000))

    def _abort_for(self, aborted: TransactionAborted) -> None:
        log.info("transaction aborted; processing again from the last commit", error=str(aborted))
        self.abort()

    def abort(self) -> None:
        """Undo everything since the last commit and go back to it. Raises ProducerLost."""
        self.settle(wait=True)
        self._producer.abort()
        self._changelog_ends, self._logged = {}, {}
        for task in self.running:
            if task.positions:
                self._reader.rewind(task.committed)
            self._roll_back(task)

    @staticmethod
    def _roll_back(task: Task) -> None:
        if task.program is not None:
            task.program.drop_outputs()
        for store in task.stores.values():
            store.abort()
        task.positions = {}

    def lag_records(self) -> dict[Partition, int]:
        """Records between what was processed and the end of each input partition, where the end is known."""
        lags = {}
        for partition, task in list(self._running.items()):
            end = self._reader.end_offset(partition)
            position = task.positions.get(partition) or task.committed.get(partition)
            if end is not None:
                lags[partition] = max(0, end - (position or 0))
        return lags

    def close(self) -> None:
        """Abort what is open and close the clients."""
        self._committer.close()
        self._producer.close()
        self._reader.close()


@contextmanager
def _aborts_left_to_the_commit() -> Iterator[None]:
    """A transaction that is aborted while something is sent is lost already: the next commit finds out and rolls back."""
    try:
        yield
    except TransactionAborted as aborted:
        log.debug("transaction aborted while sending", error=str(aborted))
