"""The files of a worker's tasks: which directories, who has them open, what to do when they are damaged."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog

from assignor.model import TaskId
from kstreams_worker.config import Settings
from kstreams_worker.errors import StateError
from kstreams_worker.observe.metrics import WorkerMetrics
from kstreams_worker.tasks.task import Task
from kstreams_worker.topology.records import Partition
from kstreams_worker.topology.topology import Topology
from state import errors as state_errors
from state.directory import StateDirectory
from state.opening import open_store
from state.resources import StateResources
from state.spec import StoreSpec
from state.store import KeyValueStore
from state.write_behind import Rest, no_rest

log = structlog.get_logger(__name__)

MEASUREMENT_INTERVAL_S = 10.0
"""Time between looks at the sizes of files: there may be thousands."""


@contextmanager
def translated() -> Iterator[None]:
    """The state room's errors, as those that end a worker with one line."""
    try:
        yield
    except state_errors.StateError as error:
        raise StateError(str(error)) from error


class TaskFiles:
    """One worker's view of its instance's state directory.

    Opened and closed by whichever thread holds the task; the tables here are only touched through single operations.
    """

    def __init__(self, settings: Settings, topology: Topology) -> None:
        self._application_id = settings.application_id
        self._topology = topology
        with translated():
            self._directory = StateDirectory(settings.state_dir, settings.application_id)
        self._cleanup_delay_ms = settings.state_cleanup_delay_ms
        self._resources = StateResources(
            cache_bytes=max(settings.cache_max_bytes, MIN_CACHE_BYTES),
            block_cache_bytes=settings.rocksdb_block_cache_bytes,
            write_buffer_bytes=settings.rocksdb_write_buffer_bytes,
        )
        self._locked: set[str] = set()
        self._next_measurement = 0.0

    def _specs(self, task: TaskId) -> tuple[StoreSpec, ...]:
        return self._topology.subtopologies[task.subtopology].stores

    def open(self, task: Task) -> bool:
        """Open a task's stores; False while another worker of the instance still has them.

        A damaged store is set aside and starts empty: its changelog has everything. Raises StateError.
        """
        if not task.stateful:
            return True
        name = str(task.id)
        with translated():
            if name not in self._locked:
                try:
                    self._directory.lock_task(name)
                except state_errors.StateInUse:
                    return False
                self._locked.add(name)
            for spec in self._specs(task.id):
                store = self._open_store(name, spec)
                task.stores[spec.name] = store
                if spec.logged:
                    task.changelogs[self._changelog(task.id, spec)] = store
        return True

    def _changelog(self, task: TaskId, spec: StoreSpec) -> Partition:
        return spec.changelog_topic(self._application_id), task.partition

    def _open_store(self, task: str, spec: StoreSpec) -> KeyValueStore:
        path = self._directory.store_directory(task, spec.name)
        try:
            return open_store(spec, path, self._resources)
        except state_errors.StoreDamaged as damage:
            aside = self._directory.set_aside(task, spec.name)
            log.warning("damaged store set aside; restoring it from its changelog", store=str(aside), error=str(damage))
            return open_store(spec, path, self._resources)

    def close(self, task: Task, rest: Rest = no_rest) -> None:
        """Close a task's stores and let others have them. Raises nothing: what cannot be flushed is in the changelog."""
        try:
            task.close(rest)
        except state_errors.StateError as error:
            log.warning("closing a task's stores failed", task=str(task.id), error=str(error))
        name = str(task.id)
        if name in self._locked:
            self._locked.discard(name)
            self._directory.unlock_task(name)

    def set_aside(self, task: Task) -> None:
        """Close the task's stores and rename their directories, so that they are restored from the beginning."""
        stores, task.stores, task.changelogs = task.stores, {}, {}
        with translated():
            for name, store in stores.items():
                store.close()
                self._directory.set_aside(str(task.id), name)

    def dormant(self) -> dict[TaskId, Mapping[Partition, int]]:
        """State on disk that nobody has open: the changelog offsets of its logged stores, where all are known."""
        found: dict[TaskId, Mapping[Partition, int]] = {}
        with translated():
            for dormant in self._directory.dormant_tasks():
                subtopology, _, partition = dormant.task.partition("_")
                task = TaskId(int(subtopology), int(partition))
                if task.subtopology >= len(self._topology.subtopologies):
                    continue
                offsets = {
                    self._changelog(task, spec): dormant.offsets.get(spec.name)
                    for spec in self._specs(task)
                    if spec.logged
                }
                known = {partition: offset for partition, offset in offsets.items() if offset is not None}
                if known and len(known) == len(offsets):
                    found[task] = known
        return found

    def clean(self) -> None:
        """Delete the state of tasks that nobody has had open for the clean-up delay."""
        with translated():
            cleaned = self._directory.clean(self._cleanup_delay_ms)
        if cleaned:
            log.info("deleted state of tasks that moved away", tasks=" ".join(cleaned))

    def observe(self, metrics: WorkerMetrics) -> None:
        """Bring the metrics about memory and disk up to date. Called by one thread."""
        now = time.monotonic()
        if now >= self._next_measurement:
            self._next_measurement = now + MEASUREMENT_INTERVAL_S
            with translated():
                metrics.set_state_bytes(self._directory.store_bytes(tuple(self._locked)))
        metrics.set_rocksdb_memory(
            {
                "block_cache": self._resources.block_cache.get_usage(),
                "memtables": self._resources.write_buffers.get_usage(),
            }
        )


MIN_CACHE_BYTES = 64 * 1024 * 1024
"""With cache.max.bytes=0 every update is forwarded at once, but recently used entries are still kept decoded."""
