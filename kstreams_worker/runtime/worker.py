"""A worker process: load, wire, join, process until told to stop, close.

Closing, in order: the loop commits; the group is left, so that others can take over at once; the stores are closed.
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from types import FrameType
from uuid import UUID

import structlog

from kstreams_worker.errors import StateError
from kstreams_worker.observe.log import set_log_context
from kstreams_worker.runtime.child import SAME_REQUEST_SECONDS, MessageSender, ParentWatch, WorkerSpec
from kstreams_worker.runtime.load import load_topology
from kstreams_worker.runtime.report import StatusSource
from kstreams_worker.runtime.task_files import TaskFiles
from kstreams_worker.runtime.topic_watch import TopicWatch
from kstreams_worker.runtime.wiring import Wiring, WorkerName
from kstreams_worker.tasks.leaving import LeaveCause

log = structlog.get_logger(__name__)

REPORT_INTERVAL_S = 1.0
CLEAN_INTERVAL_S = 60.0
"""How often to look for state of tasks that moved away longer ago than state.cleanup.delay.ms."""
GC_THRESHOLDS = (100_000, 50, 100)
"""The defaults make Python look for garbage cycles every 700 new rows, among all cached state: a fifth of the time. Rows
and entries are freed by their reference counts; cycles that user functions make are still found, just not so often."""
CONTROL_READ_TIMEOUT_S = 2.0
"""How long the first join waits for the control topic, to know whether this worker was told to leave."""
STOP_TIMEOUT_S = 10.0
STORES_TIMEOUT_S = 60.0
"""How long closing the stores may take. What is not on disk then is restored from the changelogs."""


def run_worker(spec: WorkerSpec, connection: Connection) -> int:
    """Run one worker until it is told to stop; returns the process's exit code. Raises KStreamsError."""
    # Until the loop runs there is nothing to close: a request to stop simply ends the process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    gc.set_threshold(*GC_THRESHOLDS)
    settings = spec.settings
    topology = load_topology(spec.topology_ref)
    name = WorkerName(UUID(spec.process_id).bytes, spec.worker_index, spec.instance)
    files = TaskFiles(settings, topology)
    wiring = Wiring(settings, topology, name, files)
    loop = wiring.loop
    parent = ParentWatch(connection, loop.stop)
    parent.start()
    sender = MessageSender(connection)
    reports = Reports(wiring, sender)
    watch = TopicWatch(wiring.topics, wiring.plane)
    wiring.control.start()
    wiring.updater.start()
    reports.start()
    try:
        wiring.control.wait_until_read(CONTROL_READ_TIMEOUT_S)
        loop.publish_first()
        wiring.plane.connect()
        if spec.joins_with_others:
            sender.prepared()
            parent.wait_for_join()
        wiring.plane.join()
        watch.start()
        signal.signal(signal.SIGTERM, StopSignals(wiring))
        loop.run()
    finally:
        watch.stop()
        wiring.plane.close(for_good=loop.left is not None)
        wiring.control.stop(STOP_TIMEOUT_S)
        loop.close_tasks()
        wiring.updater.stop(STORES_TIMEOUT_S)
        reports.stop(loop.left)
        log.info("worker closed")
    return 0


class StopSignals:
    """What SIGTERM means to a worker that runs: to hand over or to close, as on.sigterm says; a second one: to close.

    Service managers signal a whole process group while the supervisor passes the signal on: what comes within a moment
    is one request.
    """

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._first_at: float | None = None

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._wiring.settings.on_sigterm == "close":
            self._wiring.loop.stop()
        elif self._first_at is None:
            self._first_at = now
            self._wiring.hand_over()
        elif now - self._first_at >= SAME_REQUEST_SECONDS:
            self._wiring.loop.stop()


class Reports(threading.Thread):
    """Tells the supervisor about once a second how the worker is, and at once when its member id changes.

    Now and then it also deletes the state of tasks that are long gone.
    """

    def __init__(self, wiring: Wiring, sender: MessageSender) -> None:
        super().__init__(name="reports", daemon=True)
        self._wiring = wiring
        self._source = StatusSource(wiring)
        self._sender = sender
        self._stopping = threading.Event()
        self._member_id = ""
        wiring.plane.on_member_id = self._tell_member

    def run(self) -> None:
        next_clean = time.monotonic() + CLEAN_INTERVAL_S
        while not self._stopping.wait(REPORT_INTERVAL_S):
            self._sender.status(self._source.status(), self._source.metrics_text())
            if time.monotonic() >= next_clean:
                next_clean = time.monotonic() + CLEAN_INTERVAL_S
                self._clean()

    def _clean(self) -> None:
        try:
            self._wiring.files.clean()
        except StateError as error:
            log.warning("state of tasks long gone could not be deleted", error=str(error))

    def _tell_member(self, member_id: str) -> None:
        """On the group plane's thread: only hands the id on."""
        set_log_context(member=member_id or None)
        self._sender.member(member_id)

    def stop(self, left: LeaveCause | None) -> None:
        """Send a last status, and why the worker has left for good if it has, and end."""
        self._stopping.set()
        self.join(STOP_TIMEOUT_S)
        if left is not None:
            self._sender.left(ordered=left is LeaveCause.ORDER)
        self._sender.member("")
        self._sender.close()
