"""TopologyTestDriver: runs a topology in the test's own process, without a broker.

Records go through the same compiled code and the same stores as in a worker; only the topics are played: repartition
topics feed the tasks behind them, and everything else that is written can be read back.

    with TopologyTestDriver(topology) as driver:
        driver.input_topic("orders").pipe("ann", {"amount": 5})
        assert driver.output_topic("orders-per-customer").read_pairs() == [("ann", 1)]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kstreams_worker.errors import RecordError, UsageError
from kstreams_worker.topology.compile import compile_subtopology
from kstreams_worker.topology.nodes import SinkNode, SourceNode
from kstreams_worker.topology.partitioner import partition_of
from kstreams_worker.topology.program import TaskProgram
from kstreams_worker.topology.records import Headers, OutputRow, RecordBatch
from kstreams_worker.topology.serdes import Serde, SerdeLike, serde_of
from kstreams_worker.topology.store_view import StoreView
from kstreams_worker.topology.topology import SubTopology, Topology
from state.opening import open_store
from state.resources import StateResources
from state.store import KeyValueStore


@dataclass(frozen=True, slots=True)
class TestRecord:
    """A record that the topology wrote."""

    __test__ = False
    key: Any
    value: Any
    timestamp_ms: int


@dataclass(slots=True)
class _Task:
    program: TaskProgram
    stores: dict[str, KeyValueStore]


@dataclass(slots=True)
class _Log:
    """What was written to a topic: all rows, and how many were read."""

    rows: list[OutputRow] = field(default_factory=list)
    read_count: int = 0


class TopologyTestDriver:
    """A topology with its tasks in this process; a context manager. Not for use by several threads.

    `cached` False: every update of a table is forwarded at once, as with `cache.max.bytes` = 0. True: commit() forwards
    the newest of each key. `partitions`: how many each topic has, so also how many tasks each sub-topology has.
    `state_directory`: stores are kept there in RocksDB, and found again by the next driver; None: in memory.
    `skip_undecodable`: records that cannot be decoded are put in `undecodable` rather than raised as RecordError.
    """

    __test__ = False

    def __init__(
        self,
        topology: Topology,
        *,
        application_id: str = "test",
        cached: bool = False,
        partitions: int = 1,
        state_directory: Path | None = None,
        skip_undecodable: bool = False,
    ) -> None:
        self.topology = topology
        self.undecodable: list[tuple[str, int, int, str]] = []
        """`(topic, partition, offset, "key" or "value")` of each record that was skipped."""
        self._application_id = application_id
        self._partitions = partitions
        self._state_directory = state_directory
        self._skip_undecodable = skip_undecodable
        self._resources = StateResources()
        self._compiled = [compile_subtopology(sub, application_id, cached=cached) for sub in topology.subtopologies]
        self._readers: dict[str, list[SubTopology]] = {}
        self._partition_counts: dict[str, int] = {}
        self._sources: dict[str, SourceNode] = {}
        self._sinks: dict[str, SinkNode] = {}
        for sub in topology.subtopologies:
            self._wire(sub)
        self._tasks: dict[tuple[int, int], _Task] = {}
        self._logs: dict[str, _Log] = {}
        self._next_offsets: dict[tuple[str, int], int] = {}
        self._pending: deque[tuple[str, list[OutputRow]]] = deque()
        self._now_ms = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def input_topic(self, name: str, *, key: SerdeLike | None = None, value: SerdeLike | None = None) -> InputTopic:
        """A topic to pipe records into, written with the topology's serdes unless others are named."""
        source = self._sources.get(name)
        if source is None:
            raise UsageError(f"the topology does not read {name!r}; it reads: {', '.join(self.topology.source_topics)}")
        return InputTopic(self, name, _serde(key, source.key), _serde(value, source.value))

    def output_topic(self, name: str, *, key: SerdeLike | None = None, value: SerdeLike | None = None) -> OutputTopic:
        """A topic to read records from, read with the serdes of the topology's last to() unless others are named."""
        sink = self._sinks.get(name)
        if sink is None:
            raise UsageError(f"the topology does not write {name!r}; it writes: {', '.join(self._sinks)}")
        return OutputTopic(self._logs.setdefault(name, _Log()), _serde(key, sink.key), _serde(value, sink.value))

    def store(self, name: str, partition: int = 0) -> StoreView:
        """A store of one partition's task, to read, as processing sees it now."""
        for sub in self.topology.subtopologies:
            for definition in sub.store_definitions:
                if definition.spec.name == name:
                    return StoreView(self._task(sub, partition).stores[name], definition.key, None)
        known = ", ".join(spec.name for sub in self.topology.subtopologies for spec in sub.stores)
        raise UsageError(f"the topology has no store {name!r}; it has: {known or 'none'}")

    def advance(self, milliseconds: int) -> None:
        """Moves the clock that gives piped records their timestamp where they name none. It starts at 0."""
        self._now_ms += milliseconds

    def commit(self) -> None:
        """Commits every task, and goes on until what that sent through repartition topics is committed too."""
        uncommitted = True
        while uncommitted:
            uncommitted = False
            for task in list(self._tasks.values()):
                uncommitted |= any(store.dirty for store in task.stores.values())
                task.program.flush()
                self._collect(task)
                for store in task.stores.values():
                    rows = store.stage()
                    store.commit((store.changelog_offset or 0) + len(rows))
            self._run()

    def close(self) -> None:
        """Closes processors and stores. What was not committed is lost."""
        for task in self._tasks.values():
            task.program.close()
            for store in task.stores.values():
                store.close()
        self._tasks.clear()

    def _wire(self, sub: SubTopology) -> None:
        for node in sub.nodes:
            if isinstance(node, SourceNode):
                topic = node.repartition.topic(self._application_id) if node.repartition else None
                for name in (topic,) if topic else node.topics:
                    self._readers.setdefault(name, []).append(sub)
                    self._sources[name] = node
                if topic and node.repartition and node.repartition.partitions:
                    self._partition_counts[topic] = node.repartition.partitions
            elif isinstance(node, SinkNode):
                self._sinks[node.repartition.topic(self._application_id) if node.repartition else node.topic] = node

    def _task(self, sub: SubTopology, partition: int) -> _Task:
        task = self._tasks.get((sub.id, partition))
        if task is None:
            directory = (self._state_directory or Path()) / f"{sub.id}_{partition}"
            stores = {}
            for spec in sub.stores:
                persistent = spec.persistent and self._state_directory is not None
                if persistent:
                    directory.mkdir(parents=True, exist_ok=True)
                stores[spec.name] = open_store(
                    replace(spec, persistent=persistent), directory / spec.name, self._resources
                )
            program = self._compiled[sub.id].bind(stores, self._on_undecodable)
            task = self._tasks[sub.id, partition] = _Task(program, stores)
        return task

    def _on_undecodable(self, batch: RecordBatch, index: int, part: str, error: Exception) -> None:
        offset = batch.offsets[index]
        if not self._skip_undecodable:
            message = f"the {part} cannot be decoded: {error}"
            raise RecordError(message, batch.topic, batch.partition, offset) from error
        self.undecodable.append((batch.topic, batch.partition, offset, part))

    def _pipe(self, topic: str, rows: list[OutputRow], headers: list[Headers] | None, partition: int | None) -> None:
        self._deliver(topic, rows, headers, partition)
        self._run()

    def _run(self) -> None:
        """Delivers what was written to topics that the topology reads, until nothing is left."""
        while self._pending:
            self._deliver(*self._pending.popleft())

    def _deliver(
        self, topic: str, rows: list[OutputRow], headers: list[Headers] | None = None, to: int | None = None
    ) -> None:
        """Has the readers of a topic process rows, as one batch per partition."""
        count = self._partition_counts.get(topic, self._partitions)
        by_partition: dict[int, list[int]] = {}
        for index, (key, _, _) in enumerate(rows):
            by_key = 0 if key is None else partition_of(key, count)
            by_partition.setdefault(by_key if to is None else to, []).append(index)
        for partition, indices in by_partition.items():
            first = self._next_offsets.get((topic, partition), 0)
            self._next_offsets[topic, partition] = first + len(indices)
            batch = RecordBatch(
                topic,
                partition,
                [rows[index][0] for index in indices],
                [rows[index][1] for index in indices],
                [rows[index][2] for index in indices],
                range(first, first + len(indices)),
                None if headers is None else lambda at, indices=indices: headers[indices[at]],  # type: ignore[misc]
            )
            for sub in self._readers[topic]:
                task = self._task(sub, partition)
                task.program.process(batch)
                self._collect(task)

    def _collect(self, task: _Task) -> None:
        for topic, rows in task.program.take_outputs().items():
            self._logs.setdefault(topic, _Log()).rows.extend(rows)
            if topic in self._readers:
                self._pending.append((topic, rows))


class InputTopic:
    """Records for the topology to read."""

    def __init__(self, driver: TopologyTestDriver, name: str, key: Serde, value: Serde) -> None:
        self._driver = driver
        self._name = name
        self._key = key
        self._value = value

    def pipe(
        self,
        key: Any,
        value: Any,
        *,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> None:
        """Has the topology process one record; None is a null key or value. The partition is by key unless given."""
        row = self._row(key, value, timestamp_ms)
        self._driver._pipe(self._name, [row], None if headers is None else [headers], partition)

    def pipe_batch(self, records: Iterable[tuple[Any, Any] | tuple[Any, Any, int]]) -> None:
        """Has the topology process `(key, value)` or `(key, value, timestamp_ms)` records in one go, as a worker does."""
        rows = [self._row(key, value, *(timestamp or (None,))) for key, value, *timestamp in records]
        self._driver._pipe(self._name, rows, None, None)

    def _row(self, key: Any, value: Any, timestamp_ms: int | None) -> OutputRow:
        return (
            None if key is None else self._key.encode(key),
            None if value is None else self._value.encode(value),
            self._driver._now_ms if timestamp_ms is None else timestamp_ms,
        )


class OutputTopic:
    """Records that the topology wrote. Each is read once, across all OutputTopic objects of its topic."""

    def __init__(self, log: _Log, key: Serde, value: Serde) -> None:
        self._log = log
        self._key = key
        self._value = value

    def read_all(self) -> list[TestRecord]:
        """The records written since the last read."""
        return list(self._unread())

    def read_pairs(self) -> list[tuple[Any, Any]]:
        """`(key, value)` of the records written since the last read."""
        return [(record.key, record.value) for record in self._unread()]

    def read_latest(self) -> dict[Any, Any]:
        """The last value of each key written since the last read; None where that was a tombstone."""
        return {record.key: record.value for record in self._unread()}

    def _unread(self) -> Iterator[TestRecord]:
        log = self._log
        rows = log.rows[log.read_count :]
        log.read_count = len(log.rows)
        for key, value, timestamp_ms in rows:
            yield TestRecord(
                None if key is None else self._key.decode(key),
                None if value is None else self._value.decode(value),
                timestamp_ms,
            )


def _serde(given: SerdeLike | None, default: Serde) -> Serde:
    return default if given is None else serde_of(given)
