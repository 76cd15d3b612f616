"""One worker of an instance as its supervisor sees it: the current process, its pipe, and its restarts."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from kstreams_worker.observe.status import StatusBoard
from kstreams_worker.runtime.child import JOIN, FatalMessage, WorkerSpec, WorkerTarget, child_main
from kstreams_worker.runtime.restarts import RestartPolicy, RestartSchedule

LAST_MESSAGES_TIMEOUT_SECONDS = 5.0
"""How long to read what a worker that has ended had written: it is in the pipe already."""

# Never fork: client libraries have threads, and a forked copy of their locks hangs.
_spawning = multiprocessing.get_context("spawn")


class WorkerProcess:
    """Owned by the supervisor's loop; a thread per process reads its messages, so a half-written one blocks nobody else."""

    def __init__(
        self,
        spec: WorkerSpec,
        target: WorkerTarget | None,
        board: StatusBoard,
        policy: RestartPolicy,
        *,
        on_fatal: Callable[[int, FatalMessage], None],
        on_prepared: Callable[[int], None],
    ) -> None:
        self.index = spec.worker_index
        self.member_id = ""
        self.start_at: float | None = None
        """When to start the process, by the monotonic clock; None while it runs, and when it is not to run again."""
        self.left_by_order = False
        """It has left the group for good, as an order told it."""
        self.restarts = RestartSchedule(policy)
        self._spec = spec
        self._target = target
        self._board = board
        self._on_fatal = on_fatal
        self._on_prepared = on_prepared
        self._pipe: Connection | None = None
        self._writing = threading.Lock()
        """Held to write to the pipe, and to close it."""
        self._process: BaseProcess | None = None
        self._reader: threading.Thread | None = None
        self._started_at = 0.0

    @property
    def running(self) -> bool:
        """There is a process, perhaps one that has ended and is not reaped yet."""
        return self._process is not None

    @property
    def sentinel(self) -> int:
        """What becomes readable when the process ends. Only while `running`."""
        assert self._process is not None
        return self._process.sentinel

    @property
    def ended(self) -> bool:
        """The process has ended and waits for `reap`."""
        return self._process is not None and self._process.exitcode is not None

    def start(self, *, joins_with_others: bool = False) -> None:
        """Start the process. One that joins with others waits for `let_join`, once it could."""
        ours, theirs = _spawning.Pipe(duplex=True)
        spec = replace(self._spec, joins_with_others=joins_with_others)
        process = _spawning.Process(target=child_main, args=(spec, theirs, self._target), name=f"worker-{self.index}")
        self.start_at = None
        self.member_id = ""
        # A terminal's SIGINT must not hit the child before it ignores it: it starts with the signal blocked.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._process = process
        self._pipe = ours
        self._started_at = time.monotonic()
        self._board.worker_started(self.index)
        self._reader = threading.Thread(target=self._read, args=(ours,), name=f"worker-{self.index}-pipe", daemon=True)
        self._reader.start()

    def let_join(self) -> None:
        """Tell the process to join its group, if it lives."""
        with self._writing:
            if self._pipe is not None:
                with contextlib.suppress(OSError):
                    self._pipe.send_bytes(JOIN)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it lives."""
        if self._process is not None and self._process.pid is not None and self._process.exitcode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def reap(self) -> tuple[int, float]:
        """Take leave of a process that has ended: its exit code (negative: the signal) and how long it ran, in seconds."""
        process, reader = self._process, self._reader
        assert process is not None
        assert reader is not None
        process.join()
        reader.join(LAST_MESSAGES_TIMEOUT_SECONDS)
        exit_code = process.exitcode
        assert exit_code is not None
        process.close()
        self._process = None
        self._board.worker_ended(self.index)
        return exit_code, time.monotonic() - self._started_at

    def _read(self, connection: Connection) -> None:
        try:
            while True:
                try:
                    message = connection.recv()
                except (EOFError, OSError):
                    return
                match message["type"]:
                    case "status":
                        self._board.report(self.index, message["status"], message["metrics"])
                    case "member":
                        self.member_id = message["member_id"]
                    case "left":
                        self.left_by_order = message["ordered"]
                    case "fatal":
                        self._on_fatal(self.index, message)
                    case "prepared":
                        self._on_prepared(self.index)
        finally:
            with self._writing:
                connection.close()
                if self._pipe is connection:
                    self._pipe = None
