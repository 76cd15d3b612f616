"""The restore thread.

Following (learner, standby): reads the changelogs from where each store stands and writes them through in batches. Says
CaughtUp once a task is past the end seen at its start and within the acceptable lag.

Finishing (a task that becomes active) is three steps whose order matters under exactly-once, because a transaction's markers
reach the partitions it wrote one after the other:
1. committed input offsets, asked for as stable: from here on no transaction of an earlier owner with offsets of this task
   is open, and none can follow, since its generation is over;
2. the changelogs' ends, once the last stable offset equals the high watermark: the markers of those transactions are there;
3. restore up to those ends. Only then do state and offsets belong together.
Such a task stands still, so in the third step only the changelogs of such tasks are read: what others still have to restore
can be a hundred thousand records, and the client has most of them queued already.

This thread gives way to the processing of the worker's other tasks; but while a task stands still it does not rest.

Closing a store writes and flushes it, which takes up to a second: that is done on threads of its own, for the tasks of the
loop as well, and gives way too.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, cast

import structlog

from assignor.model import LagRecords, TaskId, WorkerId
from kstreams_worker.errors import BrokerError, KStreamsError
from kstreams_worker.group.events import OffsetsUnstable
from kstreams_worker.io.call_thread import CallThread
from kstreams_worker.io.consumer import Fetched
from kstreams_worker.restore.events import CaughtUp, Closed, FellBehind, Finished, RestoreEvent, TaskFailed
from kstreams_worker.restore.give_way import GiveWay
from kstreams_worker.tasks.task import Task
from kstreams_worker.topology.records import Partition, RecordBatch
from state.store import KeyValueStore
from state.write_behind import Rest, no_rest

log = structlog.get_logger(__name__)

MAX_RECORDS = 10_000
SHARED_RECORDS = 1_000
"""Records of one turn while the worker processes other tasks: some milliseconds of work. Between two turns the brokers are
asked what a task that stands still waits for."""
FETCH_TIMEOUT_S = 0.02
FINISH_FETCH_TIMEOUT_S = 0.002
"""While a task stands still until its state is complete, what else there is to do does not wait for records."""
IDLE_WAIT_S = 0.05
ENDS_INTERVAL_S = 0.5
"""How often the changelogs' ends are asked for, to know the lag of what is followed."""
RETRY_INTERVAL_S = 0.01
FINISH_WARNING_S = 5.0
AHEAD_S = 5.0
"""How long state must be ahead of its changelog before it is given up: a broker that has just started to lead a partition may
tell an end that is too low."""
LOCK_WARNING_S = 5.0
CLOSING_THREADS = 4


class ChangelogReader(Protocol):
    """What the thread needs of a consumer."""

    def assign(self, positions: Mapping[Partition, int | None]) -> None: ...
    def unassign(self, partitions: Iterable[Partition]) -> None: ...
    def fetch(self, max_records: int, timeout_s: float) -> Fetched: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Sources:
    """Where the thread gets from what it needs; every call has a deadline and raises BrokerError when it passes."""

    reader: Callable[[], ChangelogReader]
    stable_ends: Callable[[Iterable[Partition]], Mapping[Partition, int]]
    """The offset after the last committed record."""
    written_ends: Callable[[Iterable[Partition]], Mapping[Partition, int]]
    """The offset after the last record, committed or not."""
    committed_offsets: Callable[[Iterable[Partition]], Mapping[Partition, int]]
    """Raises OffsetsUnstable."""
    open_stores: Callable[[Task], bool]
    """Open the task's directory and stores; False while another worker of the instance still has them."""
    close_task: Callable[[Task, Rest], None]
    """The second argument is to be called between parts of the work."""
    set_aside: Callable[[Task], None]
    """Close the task's stores and rename their directories: they do not belong to the changelogs that exist."""
    fence: Callable[[WorkerId], None]
    is_processing: Callable[[], bool]
    """Whether the worker has tasks that run."""


@dataclass(eq=False)
class _Followed:
    """A task in the hands of this thread."""

    task: Task
    opened: bool = False
    asked_at: float = field(default_factory=time.monotonic)
    positions: dict[Partition, int] = field(default_factory=dict)
    first_ends: dict[Partition, int] | None = None
    caught_up: bool = False
    finishing: bool = False
    fences: list[Future[None]] = field(default_factory=list)
    offsets: Mapping[Partition, int] | None = None
    final_ends: dict[Partition, int] | None = None
    ahead_since: float | None = None
    warned: bool = False

    @property
    def is_urgent(self) -> bool:
        """Whether nothing but its changelogs' records keeps this task from being processed."""
        return self.final_ends is not None

    def is_ahead(self, ends: Mapping[Partition, int]) -> bool:
        """Whether it is past these ends, and has been so for a while."""
        if not any(self.positions.get(partition, 0) > end for partition, end in ends.items()):
            self.ahead_since = None
        elif self.ahead_since is None:
            self.ahead_since = time.monotonic()
        return self.ahead_since is not None and time.monotonic() - self.ahead_since >= AHEAD_S

    def reached(self, ends: Mapping[Partition, int]) -> bool:
        return all(self.positions.get(partition, 0) >= end for partition, end in ends.items())


class Updater(threading.Thread):
    """Commands come in by the public methods, from the loop; events go out by `tell`."""

    def __init__(
        self, sources: Sources, tell: Callable[[RestoreEvent], None], *, acceptable_lag: int, name: str
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._sources = sources
        self._tell = tell
        self._acceptable_lag = acceptable_lag
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._followed: dict[Task, _Followed] = {}
        self._by_partition: dict[Partition, _Followed] = {}
        self._reading: set[Partition] = set()
        self._fences: dict[WorkerId, Future[None]] = {}
        self._closers = ThreadPoolExecutor(max_workers=CLOSING_THREADS, thread_name_prefix=f"{name}-close")
        self._closing: dict[TaskId, Future[None]] = {}
        self._wanted_back: frozenset[TaskId] = frozenset()
        """Tasks that stand still until they have been closed here."""
        self._next_ends = 0.0
        self._next_retry = 0.0
        self._rest_s = 0.0
        """How long to do nothing before the next turn."""
        self._way = GiveWay(sources.is_processing)
        self._stopping = False
        self.restored_records = 0

    # -- for the loop ---------------------------------------------------------------------------------------------

    def follow(self, task: Task) -> None:
        """Keep this task's stores up to date. They belong to this thread from now on."""
        self._commands.put(lambda: self._follow(task))

    def finish(self, task: Task, fence: Iterable[WorkerId] = ()) -> None:
        """Complete the task's state and give it back with Finished. First the transactions of `fence` are ended."""
        workers = tuple(fence)
        self._commands.put(lambda: self._finish(task, workers))

    def drop(self, task: Task) -> None:
        """Stop following the task, if it is still followed, and close it; then Closed tells."""
        self._commands.put(lambda: self._drop(task))

    def close(self, task: Task) -> None:
        """Close a task that is the loop's and that nobody processes any more; then Closed tells."""
        self._commands.put(lambda: self._close(task))

    def stop(self, timeout_s: float) -> None:
        """Close all that is followed and end the thread; waits for what is being closed."""
        self._commands.put(self._end)
        self.join(timeout_s)

    # -- the thread -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        reader = self._sources.reader()
        try:
            while not self._stopping:
                self._take_commands()
                self._turn(reader)
        finally:
            for task in list(self._followed):
                self._drop(task)
            reader.close()
            self._closers.shutdown()

    def _take_commands(self) -> None:
        wait_s = None if not self._followed else (self._rest_s if self._by_partition else IDLE_WAIT_S)
        try:
            self._commands.get(block=wait_s != 0, timeout=wait_s)()
            while True:
                self._commands.get_nowait()()
        except queue.Empty:
            return

    def _turn(self, reader: ChangelogReader) -> None:
        try:
            self._forget_gone(reader)
            self._open_waiting()
            self._choose_what_to_read(reader)
            self._rest_s = self._read(reader) if self._reading else 0.0
            self._look_at_ends()
            self._look_at_finishing()
        except BrokerError as error:
            log.warning("restore is waiting for the brokers", error=str(error))
            self._next_ends = self._next_retry = time.monotonic() + 1.0

    def _read(self, reader: ChangelogReader) -> float:
        """Restore what is there of the changelogs. Returns how long to rest then."""
        somebody_waits = any(followed.finishing for followed in self._followed.values())
        shares = self._way.is_processing()
        started = time.monotonic()
        with self._way.sharing(self) if shares else nullcontext():
            fetched = reader.fetch(
                SHARED_RECORDS if shares else MAX_RECORDS, FINISH_FETCH_TIMEOUT_S if somebody_waits else FETCH_TIMEOUT_S
            )
            for batch in fetched.batches:
                self._restore(batch)
        for partition, end in fetched.ends.items():
            self._advance(partition, end)
        return self._way.rest_s(time.monotonic() - started) if fetched.batches and not somebody_waits else 0.0

    # -- commands -------------------------------------------------------------------------------------------------

    def _follow(self, task: Task) -> None:
        self._followed[task] = _Followed(task, opened=bool(task.stores))
        self._next_ends = 0.0

    def _finish(self, task: Task, workers: tuple[WorkerId, ...]) -> None:
        followed = self._followed.setdefault(task, _Followed(task, opened=bool(task.stores)))
        followed.finishing = True
        followed.asked_at = time.monotonic()
        followed.fences = [self._fence(worker) for worker in workers]
        self._next_retry = 0.0

    def _fence(self, worker: WorkerId) -> Future[None]:
        pending = self._fences.get(worker)
        if pending is None or pending.done():
            # A thread of its own, that does not keep the process alive: it may wait for brokers that do not answer.
            thread = CallThread(f"fence-{worker.instance.hex()[:8]}-{worker.index}")
            pending = self._fences[worker] = thread.submit(partial(self._sources.fence, worker))
            thread.close()
        return pending

    def _drop(self, task: Task) -> None:
        if self._followed.pop(task, None) is not None:
            self._close(task)

    def _close(self, task: Task) -> None:
        closing = self._closers.submit(self._close_beside, task)
        self._closing[task.id] = closing
        closing.add_done_callback(lambda done: self._tell(Closed(task.id, done.exception())))

    def _close_beside(self, task: Task) -> None:
        def rest(worked_s: float) -> None:
            if task.id not in self._wanted_back:
                self._way.rest(worked_s)

        with self._way.sharing(task):
            self._sources.close_task(task, rest)

    def _end(self) -> None:
        self._stopping = True

    # -- following ------------------------------------------------------------------------------------------------

    def _open_waiting(self) -> None:
        self._closing = {task: closing for task, closing in self._closing.items() if not closing.done()}
        self._wanted_back = frozenset(
            followed.task.id for followed in self._followed.values() if followed.finishing and not followed.opened
        )
        for followed in list(self._followed.values()):
            try:
                self._open(followed)
            except KStreamsError as error:
                self._fail(followed, error)

    def _open(self, followed: _Followed) -> None:
        task = followed.task
        if not followed.opened:
            followed.opened = task.id not in self._closing and self._sources.open_stores(task)
            if not followed.opened:
                if not followed.warned and time.monotonic() - followed.asked_at > LOCK_WARNING_S:
                    followed.warned = True
                    log.warning("waiting for another worker to close the task's state", task=str(task.id))
                return
        if task.changelogs and not followed.positions:
            for partition, store in task.changelogs.items():
                followed.positions[partition] = store.changelog_offset or 0
                self._by_partition[partition] = followed

    def _forget_gone(self, reader: ChangelogReader) -> None:
        gone = [
            partition
            for partition, followed in self._by_partition.items()
            if self._followed.get(followed.task) is not followed
        ]
        for partition in gone:
            del self._by_partition[partition]
        self._stop_reading(reader, self._reading.intersection(gone))

    def _choose_what_to_read(self, reader: ChangelogReader) -> None:
        urgent = {partition for partition, followed in self._by_partition.items() if followed.is_urgent}
        wanted = urgent or set(self._by_partition)
        self._stop_reading(reader, self._reading - wanted)
        added = wanted - self._reading
        if added:
            reader.assign({partition: self._by_partition[partition].positions[partition] for partition in added})
            self._reading |= added

    def _stop_reading(self, reader: ChangelogReader, partitions: set[Partition]) -> None:
        if partitions:
            reader.unassign(partitions)
            self._reading -= partitions

    def _restore(self, batch: RecordBatch) -> None:
        followed = self._by_partition.get((batch.topic, batch.partition))
        if followed is None:
            return
        store: KeyValueStore = followed.task.changelogs[batch.topic, batch.partition]
        following = batch.offsets[-1] + 1
        try:
            store.restore(cast(Sequence[bytes], batch.keys), batch.values, batch.timestamps_ms, following)
        except Exception as error:
            self._fail(followed, error)
            return
        self.restored_records += len(batch)
        self._advance((batch.topic, batch.partition), following)

    def _advance(self, partition: Partition, offset: int) -> None:
        followed = self._by_partition.get(partition)
        if followed is not None and offset > followed.positions[partition]:
            followed.positions[partition] = offset

    def _fail(self, followed: _Followed, error: Exception) -> None:
        self._followed.pop(followed.task, None)
        self._sources.close_task(followed.task, no_rest)
        self._tell(TaskFailed(followed.task, error))

    def _look_at_ends(self) -> None:
        """Refresh the lag of what is followed, and say who caught up or fell behind."""
        now = time.monotonic()
        if now < self._next_ends or not self._followed:
            return
        self._next_ends = now + ENDS_INTERVAL_S
        followed_tasks = [followed for followed in self._followed.values() if followed.positions]
        ends = self._sources.stable_ends(partition for followed in followed_tasks for partition in followed.positions)
        for followed in followed_tasks:
            own = {partition: ends[partition] for partition in followed.positions}
            if followed.is_ahead(own):
                self._start_over(followed)
            if followed.ahead_since is not None:
                continue
            if followed.first_ends is None:
                followed.first_ends = own
            behind = sum(max(0, end - followed.positions[partition]) for partition, end in own.items())
            followed.task.lag = LagRecords(behind)
            followed.task.restored_offsets = sum(followed.positions.values())
            caught_up = behind <= self._acceptable_lag and followed.reached(followed.first_ends)
            if followed.finishing:
                continue
            if caught_up != followed.caught_up:
                followed.caught_up = caught_up
                self._tell(CaughtUp(followed.task) if caught_up else FellBehind(followed.task))
            elif not caught_up and behind == 0:
                self._next_ends = now  # its last records are in flight to this thread

    def _start_over(self, followed: _Followed) -> None:
        """The store is ahead of its changelog: the topic was created anew or lost records. Restore from what there is."""
        task = followed.task
        log.warning("the state is ahead of its changelog: restoring from the beginning", task=str(task.id))
        self._sources.set_aside(task)
        self._followed[task] = _Followed(
            task, asked_at=followed.asked_at, finishing=followed.finishing, fences=followed.fences
        )

    # -- finishing ------------------------------------------------------------------------------------------------

    def _look_at_finishing(self) -> None:
        now = time.monotonic()
        finishing = [followed for followed in self._followed.values() if followed.finishing and followed.opened]
        if not finishing or now < self._next_retry:
            return
        self._next_retry = now + RETRY_INTERVAL_S
        self._ask_offsets(
            [followed for followed in finishing if followed.offsets is None and _all_done(followed.fences)]
        )
        self._ask_final_ends(
            [followed for followed in finishing if followed.offsets is not None and followed.final_ends is None]
        )
        for followed in finishing:
            ready = followed.final_ends is not None and followed.reached(followed.final_ends)
            if ready and followed.offsets is not None:
                self._give_back(followed)
            elif not followed.warned and now - followed.asked_at > FINISH_WARNING_S:
                followed.warned = True
                log.info("a task is still being restored", task=str(followed.task.id), waits_for=_waits_for(followed))

    def _ask_offsets(self, waiting: list[_Followed]) -> None:
        if not waiting:
            return
        inputs = [partition for followed in waiting for partition in followed.task.inputs]
        try:
            offsets = self._sources.committed_offsets(inputs)
        except OffsetsUnstable:
            if len(waiting) > 1:  # find out which of them are not held up
                for followed in waiting:
                    self._ask_offsets([followed])
            return
        for followed in waiting:
            followed.offsets = {key: offsets[key] for key in followed.task.inputs if key in offsets}

    def _ask_final_ends(self, waiting: list[_Followed]) -> None:
        if not waiting:
            return
        partitions = [partition for followed in waiting for partition in followed.task.changelogs]
        stable = self._sources.stable_ends(partitions) if partitions else {}
        written = self._sources.written_ends(partitions) if partitions else {}
        for followed in waiting:
            own = {partition: written[partition] for partition in followed.task.changelogs}
            if followed.is_ahead(own):
                self._start_over(followed)
            elif followed.ahead_since is None and all(stable[partition] == end for partition, end in own.items()):
                followed.final_ends = own

    def _give_back(self, followed: _Followed) -> None:
        task = followed.task
        assert followed.offsets is not None
        del self._followed[task]
        task.lag = LagRecords(0)
        self._tell(Finished(task, followed.offsets))


def _all_done(fences: list[Future[None]]) -> bool:
    for fence in fences:
        if fence.done() and fence.exception() is not None:
            # The open transaction then ends by its own timeout; the stable offsets below wait for that.
            log.warning("fencing a dead worker failed", error=str(fence.exception()))
    return all(fence.done() for fence in fences)


def _waits_for(followed: _Followed) -> str:
    if followed.offsets is None:
        return "a transaction of its last owner to end"
    if followed.final_ends is None:
        return "the markers of the last transaction in its changelog"
    left = sum(max(0, end - followed.positions.get(partition, 0)) for partition, end in followed.final_ends.items())
    return f"{left} changelog records"
