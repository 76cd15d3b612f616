"""Reads the outputs as any read-committed consumer would, and notes when records of each task become visible.

It reads the input as well: a pause there is Spark's, and no fault of whoever processes it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator

from assignor.model import TaskId
from examples.demo.failure import DemoFailed
from examples.demo.settings import APPLICATION_ID, INPUTS, OUTPUTS, PARTITIONS, TASK_OF_OUTPUT
from kstreams_worker.errors import KStreamsError
from kstreams_worker.io.consumer import Partition, RecordConsumer

BATCH_RECORDS_MAX = 10_000
POLL_S = 0.2
END_TIMEOUT_S = 10.0


class Watcher:
    """Runs in a thread of its own from `start` to `stop`. Times are seconds of `time.monotonic`."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._seen: dict[Partition, list[float]] = {
            (topic, partition): [] for topic in (*INPUTS, *OUTPUTS) for partition in range(PARTITIONS)
        }
        self._records = 0
        self._failure: Exception | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Harmless if it was never started."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(END_TIMEOUT_S)

    def check(self) -> None:
        """Raises DemoFailed if the outputs could not be read."""
        if self._failure is not None:
            raise DemoFailed(f"the outputs cannot be watched: {self._failure}") from self._failure

    def moments_of(self, task: TaskId) -> list[float]:
        """When records of this task became visible, in any of its output topics."""
        return sorted(
            moment for partition, owner in TASK_OF_OUTPUT.items() if owner == task for moment in self._seen[partition]
        )

    def input_moments(self) -> Iterator[list[float]]:
        """The same for each partition of the input."""
        return (list(moments) for (topic, _), moments in self._seen.items() if topic in INPUTS)

    def silent(self, tasks: Iterable[TaskId], limit_s: float) -> list[TaskId]:
        """The tasks of which nothing has become visible for so long."""
        now = time.monotonic()
        last: dict[TaskId, float] = {}
        for partition, task in TASK_OF_OUTPUT.items():
            moments = self._seen[partition]
            if moments:
                last[task] = max(moments[-1], last.get(task, moments[-1]))
        return [task for task in tasks if now - last.get(task, 0.0) > limit_s]

    def _run(self) -> None:
        try:
            consumer = RecordConsumer(
                {"bootstrap.servers": self._bootstrap_servers},
                group_id=f"{APPLICATION_ID}-watcher",
                client_id="demo-watcher",
                read_committed=True,
            )
            try:
                consumer.assign(dict.fromkeys(self._seen))
                while not self._stopping.is_set():
                    fetched = consumer.fetch(BATCH_RECORDS_MAX, POLL_S)
                    now = time.monotonic()
                    for partition in {(batch.topic, batch.partition) for batch in fetched.batches}:
                        self._seen[partition].append(now)
            finally:
                consumer.close()
        except KStreamsError as error:
            self._failure = error
