"""Metrics of one worker process, in Prometheus' text form. The supervisor joins the workers' texts for `/metrics`.

Names follow Prometheus' rules: prefix `kstreams_`, base units, `_total` for counters. Labels are bounded (topic,
partition, task, store, ...): never a key or an offset. All is updated per batch, commit or round, never per record.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import generate_latest

from kstreams_worker.observe.versions import package_version

# Each counter and histogram would otherwise come with a second series holding its creation time: half of all lines.
disable_created_metrics()  # type: ignore[no-untyped-call]

BATCH_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
LATENCY_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
PAUSE_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

SUPERVISOR = "supervisor"
"""The label `worker` of the supervisor's own series; the others carry the worker's index."""


class WorkerMetrics:
    """All series of one worker, in a registry of its own. Any thread of the worker may update and render."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._state = _Series(
            "kstreams_worker_state", "1 for the state that the worker is in", ["state"], registry=registry
        )
        self._tasks = _Series(
            "kstreams_tasks", "Tasks of the worker, by role and state", ["role", "state"], registry=registry
        )
        self._input_lag_records = _Series(
            "kstreams_input_lag_records",
            "Records between the last one processed and the end of the input",
            ["topic", "partition"],
            registry=registry,
        )
        self._restore_remaining_records = _Series(
            "kstreams_restore_remaining_records",
            "Changelog records that an active task has yet to restore",
            ["task", "store"],
            registry=registry,
        )
        self.restore_records_total = Counter(
            "kstreams_restore_records_total", "Changelog records written to stores, in any role", registry=registry
        )
        self._standby_lag_records = _Series(
            "kstreams_standby_lag_records", "Changelog records a standby is behind", ["task"], registry=registry
        )
        self._learner_lag_records = _Series(
            "kstreams_learner_lag_records", "Changelog records a learner is behind", ["task"], registry=registry
        )
        self.rebalances_total = Counter(
            "kstreams_rebalances_total", "Rounds that the worker took part in", ["reason"], registry=registry
        )
        self.rebalance_duration_seconds = Histogram(
            "kstreams_rebalance_duration_seconds",
            "Time from joining a round to having its assignment",
            buckets=PAUSE_SECONDS,
            registry=registry,
        )
        self.task_unavailable_seconds = Histogram(
            "kstreams_task_unavailable_seconds",
            "Time for which a task was processed by no worker, from its suspension to its first turn at the new owner",
            buckets=PAUSE_SECONDS,
            registry=registry,
        )
        self.task_moves_total = Counter(
            "kstreams_task_moves_total", "Decisions about tasks by this leader, by case", ["case"], registry=registry
        )
        self.records_processed_total = Counter(
            "kstreams_records_processed_total", "Input records processed", ["topic"], registry=registry
        )
        self.record_errors_total = Counter(
            "kstreams_record_errors_total",
            "Records that could not be decoded (stage deserialize), by what was done with them. A failing step of the "
            "topology ends the instance instead, and is in its log",
            ["stage", "action"],
            registry=registry,
        )
        self.process_seconds = Histogram(
            "kstreams_process_seconds", "Time to process one batch", buckets=BATCH_SECONDS, registry=registry
        )
        self.commit_seconds = Histogram(
            "kstreams_commit_seconds", "Time of one commit, all of it", buckets=BATCH_SECONDS, registry=registry
        )
        self.e2e_latency_seconds = Histogram(
            "kstreams_e2e_latency_seconds",
            "Age of each batch's oldest record, by its timestamp, when its outputs were committed",
            buckets=LATENCY_SECONDS,
            registry=registry,
        )
        self._state_bytes = _Series(
            "kstreams_state_bytes", "Size of a store on disk, all tasks of the worker", ["store"], registry=registry
        )
        self._rocksdb_memory_bytes = _Series(
            "kstreams_rocksdb_memory_bytes", "Memory held by RocksDB, by part", ["part"], registry=registry
        )
        self.loop_stall_seconds = Histogram(
            "kstreams_loop_stall_seconds",
            "Turns of the processing loop that took longer than they should, each once",
            buckets=PAUSE_SECONDS,
            registry=registry,
        )
        _add_build_info(registry)

    def set_state(self, state: str) -> None:
        """The worker is in this state, and in no other."""
        self._state.replace([*((labels, 0) for labels in self._state.current), ((state,), 1)])

    def set_tasks(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Number of tasks by (role, state), all of them: what is not named is gone."""
        self._tasks.replace(counts.items())

    def set_input_lag(self, lag_records: Mapping[tuple[str, int], int]) -> None:
        """Lag of every input partition (topic, partition) that the worker processes."""
        self._input_lag_records.replace(
            ((topic, str(partition)), lag) for (topic, partition), lag in lag_records.items()
        )

    def set_restore_remaining(self, remaining_records: Mapping[tuple[str, str], int]) -> None:
        """Records to go of every (task, store) of active tasks in restore."""
        self._restore_remaining_records.replace(remaining_records.items())

    def set_standby_lag(self, lag_records: Mapping[str, int]) -> None:
        """Lag of every standby task."""
        self._standby_lag_records.replace(((task,), lag) for task, lag in lag_records.items())

    def set_learner_lag(self, lag_records: Mapping[str, int]) -> None:
        """Lag of every learner task."""
        self._learner_lag_records.replace(((task,), lag) for task, lag in lag_records.items())

    def set_state_bytes(self, size_bytes: Mapping[str, int]) -> None:
        """Size on disk of every store."""
        self._state_bytes.replace(((store,), size) for store, size in size_bytes.items())

    def set_rocksdb_memory(self, memory_bytes: Mapping[str, int]) -> None:
        """Memory of RocksDB by part: block_cache, memtables, readers."""
        self._rocksdb_memory_bytes.replace(((part,), size) for part, size in memory_bytes.items())

    def render(self) -> str:
        """All series as Prometheus' text."""
        return generate_latest(self.registry).decode()


class SupervisorMetrics:
    """Series of the supervisor itself: what no worker could report."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.workers = Gauge("kstreams_workers", "Worker processes that are running", registry=registry)
        self.worker_exits_total = Counter(
            "kstreams_worker_exits_total", "Worker processes that ended unexpectedly", registry=registry
        )

    def render(self) -> str:
        """All series as Prometheus' text."""
        return generate_latest(self.registry).decode()


def merge_texts(texts: Mapping[str, str], group: str) -> str:
    """Join several processes' texts into one: each sample gets the labels `group` and `worker` (the mapping's key).

    A family's help and type stand once, before the samples of all processes, as the text form demands.
    """
    headers: dict[str, dict[str, str]] = {}
    samples: dict[str, list[str]] = {}
    for worker, text in texts.items():
        labels = f'group="{_escape(group)}",worker="{_escape(worker)}"'
        family = ""
        for line in text.splitlines():
            if line.startswith("#"):  # "# HELP name ..." or "# TYPE name ..."
                _, kind, family, _ = line.split(" ", 3)
                headers.setdefault(family, {}).setdefault(kind, line)
            else:
                samples.setdefault(family, []).append(_with_labels(line, labels))
    lines = (line for family, header in headers.items() for line in (*header.values(), *samples.get(family, ())))
    return "".join(f"{line}\n" for line in lines)


def metric_names() -> frozenset[str]:
    """The names of all series that any process exposes, as a dashboard or an alert would write them."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    registries = (WorkerMetrics().registry, SupervisorMetrics().registry)
    families = [family for registry in registries for family in registry.collect()]
    return frozenset(family.name + suffix for family in families for suffix in suffixes.get(family.type, ("",)))


class _Series:
    """A labelled gauge given all at once: a series not named is gone, the others are never absent in between."""

    def __init__(self, name: str, text: str, labels: list[str], registry: CollectorRegistry) -> None:
        self._gauge = Gauge(name, text, labels, registry=registry)
        self._lock = threading.Lock()
        self._current: frozenset[tuple[str, ...]] = frozenset()

    @property
    def current(self) -> frozenset[tuple[str, ...]]:
        return self._current

    def replace(self, values: Iterable[tuple[tuple[str, ...], float]]) -> None:
        with self._lock:
            wanted = set()
            for labels, value in values:
                self._gauge.labels(*labels).set(value)
                wanted.add(labels)
            for labels in self._current - wanted:
                self._gauge.remove(*labels)
            self._current = frozenset(wanted)


def _add_build_info(registry: CollectorRegistry) -> None:
    info = Gauge(
        "kstreams_build_info", "Always 1; versions as labels", ["version", "python", "platform"], registry=registry
    )
    info.labels(package_version(), platform.python_version(), platform.machine()).set(1)


def _with_labels(sample: str, labels: str) -> str:
    brace = sample.find("{")
    blank = sample.index(" ")
    if 0 <= brace < blank:
        return f"{sample[: brace + 1]}{labels},{sample[brace + 1 :]}"
    return f"{sample[:blank]}{{{labels}}}{sample[blank:]}"


def _escape(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
