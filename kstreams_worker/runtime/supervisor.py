"""The supervisor of an instance: starts its workers, restarts those that crash, stops them in order, serves status pages.

The workers of a starting instance join their group together; one that is started again joins by itself.

A worker that dies is told of at once, by a call of `on_worker_death`, so that the group need not wait for its session to
time out. A worker that cannot go on (a mistake in usage, a record that must not be skipped, ...) ends the instance.
Stopping has two steps: the first SIGTERM or SIGINT lets the workers leave, as on.sigterm says (commit and close, or hand
over their tasks first), a second one forces. Workers that were ordered to leave end by themselves, and the instance with them.

Exit codes: 0 all workers ended as they should, 1 an error, 2 a mistake in usage, 3 fenced by another instance.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import connection
from types import FrameType

import structlog

from kstreams_worker.config import Settings
from kstreams_worker.errors import UsageError
from kstreams_worker.observe.metrics import SupervisorMetrics
from kstreams_worker.observe.status import StatusBoard
from kstreams_worker.runtime.child import SAME_REQUEST_SECONDS, FatalMessage, WorkerSpec, WorkerTarget
from kstreams_worker.runtime.restarts import RestartPolicy
from kstreams_worker.runtime.start_barrier import LATE_SECONDS, StartBarrier
from kstreams_worker.runtime.worker_process import WorkerProcess

log = structlog.get_logger(__name__)

LOOP_DEADLINE_SECONDS = 60.0
"""Turns of a worker's loop take milliseconds; a single slow record may take seconds. Beyond this it hangs."""
FORCE_GRACE_SECONDS = 3.0
"""Time for a worker to end in haste, after the second signal and before SIGKILL."""
FATAL_GRACE_SECONDS = 30.0
"""Time for the other workers to end when one of them cannot go on. Nobody is there to send a second signal."""
STOP_REPORT_SECONDS = 5.0
FAREWELL_TIMEOUT_SECONDS = 5.0
"""How long an ending supervisor waits for calls of `on_worker_death` that are still under way."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

OnWorkerDeath = Callable[[int, str], None]
"""Called with worker index and member id, in a thread of its own, when a worker died without leaving its group."""


class Supervisor:
    """Runs the workers of one instance until they have ended. Its loop is the thread that calls `run`."""

    def __init__(
        self,
        settings: Settings,
        topology_ref: str,
        workers: int,
        *,
        process_id: str,
        instance: str = "",
        target: WorkerTarget | None = None,
        on_worker_death: OnWorkerDeath | None = None,
        restart_policy: RestartPolicy | None = None,
        late_seconds: float = LATE_SECONDS,
    ) -> None:
        """`process_id` is the instance's, of its state directory. `target` runs in the worker processes (default: the
        streams worker) and must be importable there. `late_seconds` is how long the first worker that could join waits for
        the others."""
        self._metrics = SupervisorMetrics()
        self.board = StatusBoard(settings.application_id, workers, LOOP_DEADLINE_SECONDS, self._metrics.render)
        self._on_worker_death = on_worker_death
        self._hands_over = settings.on_sigterm == "handover"
        self._workers = [
            WorkerProcess(
                WorkerSpec(settings, topology_ref, index, process_id, instance or socket.gethostname()),
                target,
                self.board,
                restart_policy or RestartPolicy(),
                on_fatal=self._fatal_message,
                on_prepared=self._is_prepared,
            )
            for index in range(workers)
        ]
        self._metrics.workers.set_function(lambda: sum(worker.running for worker in self._workers))
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._lock = threading.Lock()
        self._prepared: set[int] = set()
        """Workers that have said so and of which the barrier does not know yet."""
        self._barrier = StartBarrier(range(workers), time.monotonic, late_seconds)
        self._stop_requests = 0
        self._fatal: FatalMessage | None = None
        self._stop_level = 0
        """How far the loop has gone in stopping: 1 asked, 2 asked again, 3 killed."""
        self._kill_at: float | None = None
        self._report_at: float | None = None
        self._exit_code = 0
        self._farewells: list[threading.Thread] = []

    def run(self) -> int:
        """Start the workers and look after them; returns the exit code once all have ended."""
        try:
            with self._signals():
                for worker in self._workers:
                    worker.start(joins_with_others=len(self._workers) > 1)
                while self._unfinished():
                    self._wait()
                    self._turn()
        finally:
            self._kill_all()
            for farewell in self._farewells:
                farewell.join(FAREWELL_TIMEOUT_SECONDS)
            os.close(self._wake_reader)
            os.close(self._wake_writer)
        return self._exit_code

    @property
    def has_left_by_order(self) -> bool:
        """Whether an order to leave is carried out: all workers have handed over their tasks and left because of it."""
        return self._exit_code == 0 and all(worker.left_by_order for worker in self._workers)

    def request_stop(self) -> None:
        """Stop as on SIGTERM: gracefully at first, by force when called again. From any thread or signal handler."""
        self._stop_requests += 1
        self._wake()

    def _turn(self) -> None:
        self._heed_fatal()
        for worker in self._workers:
            if worker.ended:
                self._barrier.ended(worker.index)
                self._worker_ended(worker)
        self._let_join()
        if self._stop_requests > self._stop_level:
            self._escalate()
        now = time.monotonic()
        if self._kill_at is not None and now >= self._kill_at:
            self._force() if self._stop_level == 1 else self._kill()
        if self._report_at is not None and now >= self._report_at:
            self._report_at = now + STOP_REPORT_SECONDS
            log.info("Still waiting for workers", workers=self._what_is_left())
        for worker in self._workers:
            if worker.start_at is not None and now >= worker.start_at:
                log.info("Starting the worker again", worker=worker.index)
                worker.start()

    def _let_join(self) -> None:
        with self._lock:
            prepared, self._prepared = self._prepared, set()
        for index in prepared:
            self._barrier.prepared(index)
        joining = self._barrier.to_join()
        if joining:
            log.info("Workers join the group", workers=", ".join(map(str, sorted(joining))))
        for index in joining:
            self._workers[index].let_join()

    def _heed_fatal(self) -> None:
        with self._lock:
            fatal = self._fatal
        if fatal is not None and self._exit_code == 0:
            self._give_up(fatal["exit_code"])

    def _worker_ended(self, worker: WorkerProcess) -> None:
        exit_code, ran_seconds = worker.reap()
        self._heed_fatal()  # it may have been this worker's last message
        stopping = self._stop_level > 0
        facts = {"worker": worker.index, "exit_code": exit_code, "ran_seconds": round(ran_seconds, 1)}
        if exit_code == 0 or (stopping and exit_code == -signal.SIGTERM):  # told to stop before it could listen
            log.info("Worker ended", **facts)
            return
        self._metrics.worker_exits_total.inc()
        if worker.member_id:
            self._say_farewell(worker.index, worker.member_id)
        if stopping:
            log.warning("Worker ended with an error", **facts)
            self._fail(1)
        elif exit_code == UsageError.exit_code:  # it will be one the next time as well
            log.error("Worker cannot be started; see its log", **facts)
            self._give_up(exit_code)
        else:
            self._restart(worker, ran_seconds, facts)

    def _restart(self, worker: WorkerProcess, ran_seconds: float, facts: dict[str, float]) -> None:
        delay_seconds = worker.restarts.next_delay_seconds(ran_seconds)
        if delay_seconds is None:
            log.error("Worker ended too often; giving up", times=worker.restarts.failures, **facts)
            self._give_up(1)
            return
        log.warning("Worker ended unexpectedly; it is started again", delay_seconds=delay_seconds, **facts)
        worker.start_at = time.monotonic() + delay_seconds

    def _give_up(self, exit_code: int) -> None:
        self._fail(exit_code)
        if self._stop_level == 0:
            self._begin_stop()
            self._kill_at = time.monotonic() + FATAL_GRACE_SECONDS

    def _fail(self, exit_code: int) -> None:
        """The first reason is the one that the exit code tells."""
        self._exit_code = self._exit_code or exit_code

    def _begin_stop(self) -> None:
        self._stop_level = 1
        self._stop_requests = max(self._stop_requests, 1)
        self._report_at = time.monotonic() + STOP_REPORT_SECONDS
        for worker in self._workers:
            worker.start_at = None
            worker.signal(signal.SIGTERM)

    def _escalate(self) -> None:
        if self._stop_level == 0:
            how = "hand over their tasks" if self._hands_over else "commit, close"
            log.info(f"Stopping: workers {how} and leave; a second signal forces", workers=self._what_is_left())
            self._begin_stop()
        elif self._stop_level == 1:
            self._force()
        else:
            self._kill()

    def _force(self) -> None:
        log.warning("Forcing the workers to end", workers=self._what_is_left(), grace_seconds=FORCE_GRACE_SECONDS)
        self._stop_level = 2
        self._stop_requests = max(self._stop_requests, 2)
        self._kill_at = time.monotonic() + FORCE_GRACE_SECONDS
        for worker in self._workers:
            worker.signal(signal.SIGTERM)

    def _kill(self) -> None:
        self._stop_level = 3
        self._kill_at = None
        for worker in self._workers:
            worker.signal(signal.SIGKILL)

    def _kill_all(self) -> None:
        """The last resort when the loop itself failed: no worker outlives its supervisor."""
        for worker in self._workers:
            if worker.running:
                worker.signal(signal.SIGKILL)
                worker.reap()

    def _what_is_left(self) -> str:
        """The workers that run, each with its state and number of tasks."""
        return ", ".join(self._describe(worker.index) for worker in self._workers if worker.running) or "none"

    def _describe(self, index: int) -> str:
        status = self.board.status_of(index)
        return f"{index} ({status['state']}, {len(status['tasks'])} tasks)" if status else f"{index} (starting)"

    def _say_farewell(self, index: int, member_id: str) -> None:
        if self._on_worker_death is None:
            return
        farewell = threading.Thread(
            target=_call_safely, args=(self._on_worker_death, index, member_id), name=f"farewell-{index}", daemon=True
        )
        farewell.start()
        self._farewells = [thread for thread in self._farewells if thread.is_alive()]
        self._farewells.append(farewell)

    def _fatal_message(self, index: int, message: FatalMessage) -> None:
        """Called by a worker's reader thread."""
        log.error(message["error"], worker=index, exit_code=message["exit_code"])
        with self._lock:
            self._fatal = self._fatal or message
        self._wake()

    def _is_prepared(self, index: int) -> None:
        """Called by a worker's reader thread."""
        with self._lock:
            self._prepared.add(index)
        self._wake()

    def _unfinished(self) -> bool:
        return any(worker.running or worker.start_at is not None for worker in self._workers)

    def _wait(self) -> None:
        """Until a process ends, something wakes the loop, or the next moment at which something is due."""
        moments = [self._kill_at, self._report_at, self._barrier.due, *(worker.start_at for worker in self._workers)]
        due = min((moment for moment in moments if moment is not None), default=None)
        timeout_seconds = None if due is None else max(0.0, due - time.monotonic())
        sentinels = [worker.sentinel for worker in self._workers if worker.running]
        connection.wait([self._wake_reader, *sentinels], timeout_seconds)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_reader, 1024)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # full: it is awake; closed: it has ended
            os.write(self._wake_writer, b"\0")

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Take over the stop signals, where they can be: in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        heard_at = -math.inf

        def handle(_number: int, _frame: FrameType | None) -> None:
            nonlocal heard_at
            now = time.monotonic()
            if now - heard_at >= SAME_REQUEST_SECONDS:
                heard_at = now
                self.request_stop()

        before = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _call_safely(on_worker_death: OnWorkerDeath, index: int, member_id: str) -> None:
    try:
        on_worker_death(index, member_id)
    except Exception as error:
        log.warning(
            "Could not tell the group of a dead worker; its session will time out", worker=index, error=str(error)
        )
