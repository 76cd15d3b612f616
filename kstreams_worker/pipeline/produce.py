"""Writes a source of records to a topic, at a set rate or as fast as it goes.

Two windows (see `pacing`) are in flight at a time, each in a thread of its own. A stop is honoured between windows: what
was begun is finished, so the records written are always numbers `first_index` to `next_index - 1`, none missing.

Spark's writer is a Java producer with Kafka's own partitioner, idempotent and with acks=all. A record's timestamp is the
moment it is sent (Spark's writer knows no other), so the delay from there to an output can be measured; the time of the
event is in the value.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from kstreams_worker.errors import KStreamsError, TopicError, UsageError
from kstreams_worker.io.admin import Admin, TopicSpec
from kstreams_worker.pipeline.access import KafkaAccess
from kstreams_worker.pipeline.failures import spark_errors
from kstreams_worker.pipeline.pacing import WINDOW_S, Window, paced, tasks_per_window, windows
from kstreams_worker.pipeline.source import RecordSource

WINDOWS_IN_FLIGHT = 2

# How long before its first record is due a window's job is started, at least: more than a job's planning takes.
_LEAD_S = 0.7
# And how much of a longer window, since on a busy machine planning takes longer.
_LEAD_OF_WINDOW = 1 / 3
# From the call to the first record: the first job is slower, its code is not compiled yet.
_START_DELAY_S = 2.0
_TOPIC_TIMEOUT_S = 15.0

_PRODUCER_OPTIONS = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    "kafka.linger.ms": "5",
    "kafka.batch.size": "131072",
    "kafka.client.id": "kstreams-pipeline",
}


@dataclass(frozen=True, slots=True)
class ProducePlan:
    """How much, how fast, from which record on. `duration_s` ends it even if `records` are not all written."""

    topic: str
    records: int | None = None
    rate: float | None = None
    duration_s: float | None = None
    first_index: int = 0
    window_s: float = WINDOW_S
    """With a rate: how much is written by one Spark job. Longer windows cost less and take longer to stop."""

    def __post_init__(self) -> None:
        if self.rate is not None and self.rate <= 0:
            raise UsageError(f"the rate must be above 0, not {self.rate:g}")
        if self.records is not None and self.records < 0:
            raise UsageError(f"the number of records must not be negative: {self.records}")
        if self.duration_s is not None and self.duration_s <= 0:
            raise UsageError(f"the duration must be above 0, not {self.duration_s:g}")
        if self.first_index < 0:
            raise UsageError(f"the first index must not be negative: {self.first_index}")
        if self.window_s <= 0:
            raise UsageError(f"the window must be above 0 s, not {self.window_s:g}")


@dataclass(frozen=True, slots=True)
class Totals:
    """What was written. `start_ms` (of the epoch) is when the first record was due, and where `elapsed_s` begins.

    `stopped` if a stop was asked for.
    """

    topic: str
    records: int
    first_index: int
    next_index: int
    start_ms: int
    elapsed_s: float
    records_per_s: float
    stopped: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def slots_needed(rate: float | None) -> int:
    """Slots (of a local master) that let windows overlap; waiting tasks hold a slot but no processor."""
    return 1 if rate is None else WINDOWS_IN_FLIGHT * tasks_per_window(rate)


def ensure_topic(access: KafkaAccess, topic: str, partitions: int | None = None) -> int:
    """Create `topic` with `partitions` if it is missing; returns its partitions when it can be written.

    `partitions` None: it must exist. Raises TopicError if it does not, or has another number; BrokerError.
    """
    admin = Admin(access.admin, client_id="kstreams-pipeline-admin")
    found = admin.partition_counts([topic]).get(topic)
    if found is None:
        if partitions is None:
            raise TopicError(f"topic {topic} does not exist; give --partitions to have it created")
        admin.create_topics([TopicSpec(topic, partitions)])
        deadline = time.monotonic() + _TOPIC_TIMEOUT_S
        while (found := admin.partition_counts([topic]).get(topic)) is None:
            if time.monotonic() > deadline:
                raise TopicError(f"topic {topic} was created, but is not to be seen after {_TOPIC_TIMEOUT_S:g} s")
            time.sleep(0.05)
    if partitions is not None and found != partitions:
        raise TopicError(f"topic {topic} exists with {found} partitions, not {partitions}; leave --partitions out")
    return found


def produce(
    spark: SparkSession,
    source: RecordSource,
    access: KafkaAccess,
    plan: ProducePlan,
    *,
    stop: threading.Event | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Totals:
    """Write `source` to the topic, which must exist. `on_progress` gets the records written so far, from another thread.

    Set `stop` to end it early: the windows in flight are finished. Raises BrokerError and KStreamsError; what windows
    before the failed one wrote stays written.
    """
    run = _Run(
        plan,
        source,
        options=_PRODUCER_OPTIONS | access.spark_options | {"topic": plan.topic},
        tasks=spark.sparkContext.defaultParallelism if plan.rate is None else tasks_per_window(plan.rate),
        stop=stop or threading.Event(),
        on_progress=on_progress,
    )
    return run.write(windows(plan.first_index, _records_to_write(source, plan), plan.rate, plan.window_s))


def _records_to_write(source: RecordSource, plan: ProducePlan) -> int | None:
    limits = [plan.records]
    if source.total is not None:
        limits.append(max(0, source.total - plan.first_index))
    if plan.rate is not None and plan.duration_s is not None:
        limits.append(round(plan.rate * plan.duration_s))
    return min((limit for limit in limits if limit is not None), default=None)


@dataclass(slots=True)
class _Run:
    """One call of `produce`. Its windows are written in threads; `write` runs in the caller's."""

    plan: ProducePlan
    source: RecordSource
    options: Mapping[str, str]
    tasks: int
    stop: threading.Event
    on_progress: Callable[[int], None] | None
    start_s: float = field(default_factory=time.time)
    written: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.plan.rate is not None:
            self.start_s += _START_DELAY_S

    def write(self, all_windows: Iterator[Window]) -> Totals:
        try:
            stopped = self._write_all(all_windows)
        except KStreamsError as error:
            raise type(error)(f"{error} ({self.written} records were written before)") from error
        elapsed_s = max(0.0, time.time() - self.start_s)
        return Totals(
            topic=self.plan.topic,
            records=self.written,
            first_index=self.plan.first_index,
            next_index=self.plan.first_index + self.written,
            start_ms=round(self.start_s * 1000),
            elapsed_s=round(elapsed_s, 3),
            records_per_s=round(self.written / elapsed_s, 1) if elapsed_s else 0.0,
            stopped=stopped,
        )

    def _write_all(self, all_windows: Iterator[Window]) -> bool:
        """Returns whether it was stopped. Raises when no window is being written any more."""
        in_flight: set[Future[None]] = set()
        lead_s = max(_LEAD_S, _LEAD_OF_WINDOW * self.plan.window_s)
        try:
            for window in all_windows:
                if len(in_flight) == WINDOWS_IN_FLIGHT:
                    in_flight = self._settle(in_flight)
                if self.stop.wait(max(0.0, self.start_s + window.due_s - lead_s - time.time())):
                    return True
                if self._is_over():
                    return False
                in_flight.add(self._begin(window))
            return False
        finally:
            while in_flight:
                in_flight = self._settle(in_flight)

    def _begin(self, window: Window) -> Future[None]:
        """Write a window in a thread of its own: Spark's kind, whose connection to Java is closed when it ends."""
        future: Future[None] = Future()

        def write() -> None:
            try:
                self._write_window(window)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(None)

        InheritableThread(target=write, name=f"produce-{window.first}", daemon=True).start()
        return future

    def _is_over(self) -> bool:
        return self.plan.duration_s is not None and time.time() - self.start_s >= self.plan.duration_s

    @staticmethod
    def _settle(in_flight: set[Future[None]]) -> set[Future[None]]:
        """Wait for one window or more; returns those that are left. Raises what a window raised, after all have ended."""
        done, left = wait(in_flight, return_when=FIRST_COMPLETED)
        if any(window.exception() is not None for window in done):
            done, left = wait(in_flight)[0], set()
        for window in done:
            window.result()
        return set(left)

    def _write_window(self, window: Window) -> None:
        with spark_errors(f"cannot write to topic {self.plan.topic}"):
            rows = self.source.stretch(window.first, window.count, self.tasks)
            if self.plan.rate is not None:
                due_ms = (self.start_s + window.due_s) * 1000
                rows = paced(rows, window.first, self.tasks, self.plan.rate, due_ms)
            rows.select("key", "value").write.format("kafka").options(**self.options).save()
        with self.lock:
            self.written += window.count
            written = self.written
        if self.on_progress is not None:
            self.on_progress(written)
