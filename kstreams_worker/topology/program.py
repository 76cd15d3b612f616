"""A task's program: compiled code bound to the task's stores and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kstreams_worker.topology.nodes import ProcessNode
from kstreams_worker.topology.processor import Cursor, Forward, Processor, ProcessorContext, StreamClock
from kstreams_worker.topology.records import OutputRow, RecordBatch
from kstreams_worker.topology.store_view import StoreView
from kstreams_worker.topology.topology import SubTopology

if TYPE_CHECKING:
    from state.store import KeyValueStore

ProcessBatch = Callable[[RecordBatch], None]
Bind = Callable[["Binding"], tuple[dict[str, ProcessBatch], list[Callable[[], None]]]]


class Binding:
    """What generated code asks of its task while it is bound."""

    def __init__(self, sub: SubTopology, stores: Mapping[str, KeyValueStore]) -> None:
        self.outputs: dict[str, list[OutputRow]] = {}
        self.processors: list[tuple[Processor, ProcessorContext]] = []
        self.cursor = Cursor()
        self.clock = StreamClock()
        self._sub = sub
        self._stores = stores

    def store(self, name: str) -> KeyValueStore:
        return self._stores[name]

    def rows(self, topic: str) -> list[OutputRow]:
        """The list of a topic's output rows."""
        return self.outputs.setdefault(topic, [])

    def processor(self, node: ProcessNode, forward: Forward | None) -> tuple[ProcessorContext, Callable[..., object]]:
        """The context of a process() step, and what to call for each record."""
        definitions = {store.spec.name: store for store in self._sub.store_definitions}
        context = ProcessorContext(forward, self.cursor, self.clock)
        for name in node.stores:
            definition = definitions[name]
            context.add_store(
                name, StoreView(self._stores[name], definition.key, None if definition.table else context)
            )
        if not node.is_factory:
            return context, node.processor
        processor = node.processor()
        self.processors.append((processor, context))
        return context, processor.process


class TaskProgram:
    """Runs a task's records through its sub-topology. Used by one thread: the task's loop."""

    def __init__(self, sub: SubTopology, stores: Mapping[str, KeyValueStore], bind: Bind) -> None:
        binding = Binding(sub, stores)
        self._outputs = binding.outputs
        self._cursor = binding.cursor
        self._processors = binding.processors
        self._routes, self._flushes = bind(binding)
        for processor, context in self._processors:
            processor.init(context)

    def process(self, batch: RecordBatch) -> None:
        """Processes the batch's records in order; what they give is in take_outputs().

        Raises RecordError where a step raises on a record, and whatever on_undecodable raises. The task's state is then
        between records: it must be aborted, not committed.
        """
        self._routes[batch.topic](batch)

    def flush(self) -> None:
        """Stages cached tables and passes on the newest value of each changed key, those nearest to the sources first.

        To be called once before each commit. Raises ForwardError where a step raises on a value.
        """
        self._cursor.leave()
        for flush in self._flushes:
            flush()

    def send_outputs(self, send: Callable[[str, list[OutputRow]], None]) -> None:
        """Hands over the rows made since the last call, topic by topic; `send` must not keep the list."""
        for topic, rows in self._outputs.items():
            if rows:
                try:
                    send(topic, rows)
                finally:
                    rows.clear()

    def take_outputs(self) -> dict[str, list[OutputRow]]:
        """The rows made since the last call, by real topic name, in the order they were made."""
        taken = {}
        for topic, rows in self._outputs.items():
            if rows:
                taken[topic] = rows.copy()
                rows.clear()
        return taken

    def drop_outputs(self) -> None:
        """Forgets the rows made since the last call."""
        for rows in self._outputs.values():
            rows.clear()

    def close(self) -> None:
        """Closes the user's processors; drops outputs that were not taken."""
        self.drop_outputs()
        for processor, _ in self._processors:
            processor.close()
