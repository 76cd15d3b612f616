"""One task on one worker: its role and state, its stores, its positions.

A task's stores belong to one thread at a time: to the restore thread while it follows a changelog, to the processing loop
while it runs or is suspended. The hand-over is a command or an event in a queue; nothing is locked.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from assignor.model import CopyState, LagRecords, TaskId
from kstreams_worker.machine import Machine
from kstreams_worker.tasks.plan import TaskView
from kstreams_worker.tasks.states import Role, TaskEvent, TaskState, task_machine
from kstreams_worker.topology.compile import TaskProgram
from kstreams_worker.topology.records import Partition
from state.store import KeyValueStore
from state.write_behind import Rest, no_rest


@dataclass(slots=True, eq=False)
class Task:
    """`inputs` are the topic partitions that it reads; `changelogs` maps each of its changelog partitions to its store."""

    id: TaskId
    role: Role
    stateful: bool
    inputs: tuple[Partition, ...]
    machine: Machine[TaskState, TaskEvent] = field(init=False)
    stores: dict[str, KeyValueStore] = field(default_factory=dict)
    changelogs: dict[Partition, KeyValueStore] = field(default_factory=dict)
    program: TaskProgram | None = None
    positions: dict[Partition, int] = field(default_factory=dict)
    """The next offset to process of each input partition, for those read since the last commit or committed before."""
    committed: dict[Partition, int | None] = field(default_factory=dict)
    """The position to go back to when a transaction is aborted; None: the beginning."""
    lag: LagRecords = LagRecords(0)
    restored_offsets: int = 0
    """How far its changelogs have been restored, added up over them."""
    records_processed: int = 0
    stopped_at: float | None = None
    """When it was suspended or given to this worker (monotonic seconds); cleared when it processes again."""

    def __post_init__(self) -> None:
        self.machine = task_machine(str(self.id))

    @property
    def state(self) -> TaskState:
        return self.machine.state

    def view(self) -> TaskView:
        return TaskView(self.role, self.machine.state, self.stateful, self.lag)

    @property
    def has_progress(self) -> bool:
        """Whether there is anything to commit."""
        return any(self.committed.get(partition) != position for partition, position in self.positions.items())

    @property
    def unlogged_stores(self) -> list[KeyValueStore]:
        """Those without a changelog."""
        logged = set(map(id, self.changelogs.values()))
        return [store for store in self.stores.values() if id(store) not in logged]

    @property
    def left_on_disk(self) -> CopyState | None:
        """What there will be of its state once it is closed, if it was processed until now; None if that is not all of it."""
        stores = self.changelogs.values()
        return CopyState(LagRecords(0)) if stores and all(store.spec.persistent for store in stores) else None

    @property
    def dirty_bytes(self) -> int:
        return sum(store.dirty_bytes for store in self.stores.values())

    def start_at(self, offsets: Mapping[Partition, int]) -> dict[Partition, int | None]:
        """Take over at these committed offsets; returns where to read from (None: the beginning)."""
        self.committed = {partition: offsets.get(partition) for partition in self.inputs}
        self.positions = {}
        return dict(self.committed)

    def close(self, rest: Rest = no_rest) -> None:
        """Close program and stores; what is not committed is lost, as it should be. `rest` is as for a store.

        Closes all of them, and then raises the error of the first that could not be closed.
        """
        if self.program is not None:
            self.program.close()
            self.program = None
        with ExitStack() as closing:
            for store in self.stores.values():
                closing.callback(store.close, rest)
        self.stores.clear()
        self.changelogs.clear()
