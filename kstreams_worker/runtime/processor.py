"""The data path of one worker: read batches, run them through the tasks' compiled chains, commit.

Under exactly_once_v2 a commit is one transaction of outputs, changelog records and input offsets; only when it is committed
do the stores write, values and changelog offset together. Under at_least_once the outputs and the changelog are flushed
first, then the offsets are committed, then the stores write. Either way RocksDB never holds what is not committed.

Owned by the processing loop; no other thread may call it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from kstreams_worker.io.consumer import Fetched, Partition
from kstreams_worker.io.failures import TransactionAborted
from kstreams_worker.io.producer import Generation, RecordProducer
from kstreams_worker.observe.metrics import WorkerMetrics
from kstreams_worker.tasks.task import Task
from kstreams_worker.topology.records import RecordBatch

log = structlog.get_logger(__name__)


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

    begin: Callable[[], bool]
    """False: a round is on, and the broker would refuse. True: the round waits until `end`."""
    end: Callable[[], None]
    generation: Callable[[], Generation]
    commit_offsets: Callable[[Mapping[Partition, int]], bool] | None
    """At least once: commit the offsets; False when the broker would not take them just now. None: transactions do it."""


class Processor:
    """The running tasks of a worker and what moves records through them."""

    def __init__(
        self,
        reader: InputReader,
        producer: RecordProducer,
        gate: CommitGate,
        metrics: WorkerMetrics,
        *,
        max_records: int,
        max_dirty_bytes: int,
    ) -> None:
        self._reader = reader
        self._producer = producer
        self._gate = gate
        self._metrics = metrics
        self._max_records = max_records
        self._max_dirty_bytes = max_dirty_bytes
        self._running: dict[Partition, Task] = {}
        self._oldest_ms: int | None = None

    @property
    def running(self) -> list[Task]:
        return list(dict.fromkeys(self._running.values()))

    def start(self, task: Task, offsets: Mapping[Partition, int]) -> None:
        """Process a task whose state is complete, from these committed offsets on."""
        self._reader.assign(task.start_at(offsets))
        self._running.update(dict.fromkeys(task.inputs, task))

    def stop(self, tasks: Iterable[Task]) -> None:
        """Read no more for these tasks. What they have not committed is rolled back: commit before, or mean it."""
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

        Raises RecordError where a record cannot be processed, BrokerError, ProducerFenced.
        """
        fetched = self._reader.fetch(self._max_records, timeout_s)
        for batch in fetched.batches:
            task = self._running.get((batch.topic, batch.partition))
            if task is not None:
                self._process(task, batch)
        return sum(map(len, fetched.batches))

    def _process(self, task: Task, batch: RecordBatch) -> None:
        program = task.program
        assert program is not None, f"task {task.id} runs without a program"
        started = time.perf_counter()
        program.process(batch)
        self._send_outputs(task)
        task.positions[batch.topic, batch.partition] = batch.offsets[-1] + 1
        task.records_processed += len(batch)
        if self._oldest_ms is None:
            self._oldest_ms = batch.timestamps_ms[0]
        self._metrics.process_seconds.observe(time.perf_counter() - started)
        self._metrics.records_processed_total.labels(batch.topic).inc(len(batch))

    def _send_outputs(self, task: Task) -> None:
        assert task.program is not None
        try:
            task.program.send_outputs(self._producer.send)
        except TransactionAborted as aborted:
            # The transaction is lost already; the commit will find out and roll everything back.
            log.debug("transaction aborted while sending", error=str(aborted))

    @property
    def buffer_is_full(self) -> bool:
        """Whether uncommitted state has reached its limit, which calls for an early commit."""
        return sum(task.dirty_bytes for task in self.running) >= self._max_dirty_bytes

    def commit(self) -> bool:
        """Commit all tasks. False when it has to wait for the group, or was rolled back to be processed again."""
        tasks = [task for task in self.running if task.has_progress]
        if not tasks:
            return True
        if not self._gate.begin():
            return False
        try:
            return self._commit(tasks)
        finally:
            self._gate.end()

    def _commit(self, tasks: list[Task]) -> bool:
        started = time.perf_counter()
        changelog_ends: dict[Partition, int] = {}
        try:
            for task in tasks:
                self._send_task(task, changelog_ends)
            offsets = {partition: offset for task in tasks for partition, offset in task.positions.items()}
            self._producer.commit(offsets, self._gate.generation())
        except TransactionAborted as aborted:
            log.info("transaction aborted; processing again from the last commit", error=str(aborted))
            self.abort()
            return False
        committed = self._gate.commit_offsets is None or self._gate.commit_offsets(offsets)
        for task in tasks:
            for partition, store in task.changelogs.items():
                end = changelog_ends.get(partition)
                store.commit(None if end is None else end + 1)
            for store in task.stores.values():
                if not any(store is logged for logged in task.changelogs.values()):
                    store.commit(None)
            if committed:
                task.committed.update(task.positions)
        self._observe_commit(started)
        return committed

    def _send_task(self, task: Task, changelog_ends: dict[Partition, int]) -> None:
        """Hand over what the task has for this commit: cached updates that go on now, outputs, changelog records."""
        assert task.program is not None
        task.program.flush()
        task.program.send_outputs(self._producer.send)
        logged = {id(store) for store in task.changelogs.values()}
        for (topic, partition), store in task.changelogs.items():
            changes = store.stage()
            self._producer.send_tracked(
                topic, changes, partition, partial(changelog_ends.__setitem__, (topic, partition))
            )
        for store in task.stores.values():
            if id(store) not in logged:
                store.stage()

    def _observe_commit(self, started: float) -> None:
        self._metrics.commit_seconds.observe(time.perf_counter() - started)
        if self._oldest_ms is not None:
            self._metrics.e2e_latency_seconds.observe(max(0.0, time.time() - self._oldest_ms / 1000))
            self._oldest_ms = None

    def abort(self) -> None:
        """Undo everything since the last commit and go back to it. Raises ProducerFenced."""
        self._producer.abort()
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
        self._producer.close()
        self._reader.close()
