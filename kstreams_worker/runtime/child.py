"""The worker's side of its supervisor: what it is started with, how it reports, how it notices that the supervisor died.

Between the two is one duplex pipe. The worker sends messages (`Message`); the supervisor sends one word, that the workers of
a starting instance may join, and the end of the pipe tells the worker that it is alone. Orders come as signals: SIGTERM asks
for a graceful stop, and may come more than once. SIGINT is ignored in workers, since a terminal sends it to all processes at
once; the supervisor translates it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Literal, TypedDict

import structlog

from kstreams_worker.config import Settings
from kstreams_worker.errors import BrokerError, KStreamsError
from kstreams_worker.observe.log import configure_logging
from kstreams_worker.observe.status import WorkerStatus

log = structlog.get_logger(__name__)

DEBUG_VARIABLE = "KSTREAMS_DEBUG"
"""Set to anything, it adds the traceback to errors that are otherwise told in one line."""

SAME_REQUEST_SECONDS = 0.5
"""Signals so close together are one request: `timeout` and some service managers signal a process and then its group."""
JOIN = b"join"
"""What the supervisor sends when the workers of a starting instance are to join their group."""
JOIN_TIMEOUT_SECONDS = 15.0
"""How long a worker that could join waits for that word: longer than any supervisor that is well lets it wait."""
LAST_WORDS_TIMEOUT_SECONDS = 2.0
"""How long an ending worker tries to tell a supervisor that does not read."""


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker process is started with. Picklable."""

    settings: Settings
    topology_ref: str
    """`module:attribute` of the topology, imported in the worker."""
    worker_index: int
    """From 0, stable over restarts of the worker."""
    process_id: str
    """UUID of the instance, kept in its state directory."""
    instance: str
    """Host or pod name, for people."""
    joins_with_others: bool = False
    """It starts together with the other workers of its instance, and joins when the supervisor says so."""


class StatusMessage(TypedDict):
    """About once a second."""

    type: Literal["status"]
    status: WorkerStatus
    metrics: str
    """The text of the worker's metrics registry."""


class MemberMessage(TypedDict):
    """The worker's member id changed: the one to remove from the group if the worker dies. Empty: it has left."""

    type: Literal["member"]
    member_id: str


class FatalMessage(TypedDict):
    """The worker ends, and to start it again would not help: the instance stops with this exit code."""

    type: Literal["fatal"]
    error: str
    exit_code: int


class LeftMessage(TypedDict):
    """The worker has handed over its tasks and left the group for good."""

    type: Literal["left"]
    ordered: bool
    """By an order on the control topic, which is carried out once all workers of the instance have left."""


class PreparedMessage(TypedDict):
    """The worker could join its group now, and waits for the word to do so."""

    type: Literal["prepared"]


Message = StatusMessage | MemberMessage | FatalMessage | LeftMessage | PreparedMessage
WorkerTarget = Callable[[WorkerSpec, Connection], int]
"""What runs in a worker process; returns the process's exit code."""

_sending = threading.Lock()  # one pipe per process: a message must not be cut in two by another thread's


class MessageSender:
    """Sends messages from a thread of its own, so that a supervisor that does not read never holds up the worker.

    Of statuses only the newest is kept; the other messages are all sent, in order. A supervisor that is gone is no
    error here: `ParentWatch` tells.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._changed = threading.Condition()
        self._status: StatusMessage | None = None
        self._others: list[Message] = []
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="message-sender", daemon=True)
        self._thread.start()

    def status(self, status: WorkerStatus, metrics: str) -> None:
        """Report the worker's status; replaces one that was not sent yet."""
        with self._changed:
            self._status = {"type": "status", "status": status, "metrics": metrics}
            self._changed.notify()

    def member(self, member_id: str) -> None:
        """Report the current member id, empty once the worker has left the group."""
        self._send({"type": "member", "member_id": member_id})

    def fatal(self, error: str, exit_code: int) -> None:
        """Report why this worker, and with it the instance, cannot go on."""
        self._send({"type": "fatal", "error": error, "exit_code": exit_code})

    def prepared(self) -> None:
        """Report that this worker waits for the word to join."""
        self._send({"type": "prepared"})

    def left(self, *, ordered: bool) -> None:
        """Report that this worker has left for good."""
        self._send({"type": "left", "ordered": ordered})

    def close(self, timeout_seconds: float = LAST_WORDS_TIMEOUT_SECONDS) -> None:
        """Send what is left, for so long at most."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout_seconds)

    def _send(self, message: Message) -> None:
        with self._changed:
            self._others.append(message)
            self._changed.notify()

    def _run(self) -> None:
        while (messages := self._take()) is not None:
            try:
                with _sending:
                    for message in messages:
                        self._connection.send(message)
            except OSError:  # nobody is there to read
                return

    def _take(self) -> list[Message] | None:
        with self._changed:
            while not (self._others or self._status or self._closed):
                self._changed.wait()
            messages: list[Message] = [*self._others, *([self._status] if self._status else [])]
            self._others = []
            self._status = None
        return messages or None  # nothing left to send: closed


class ParentWatch:
    """Listens to the supervisor. Calls back once, from a thread of its own, when it is gone, however it went."""

    def __init__(self, connection: Connection, on_gone: Callable[[], None]) -> None:
        self._connection = connection
        self._on_gone = on_gone
        self._may_join = threading.Event()

    def start(self) -> None:
        """Begin to watch."""
        threading.Thread(target=self._run, name="parent-watch", daemon=True).start()

    def wait_for_join(self) -> None:
        """Wait until the supervisor says that it is time to join, for so long that it must have gone wrong otherwise."""
        self._may_join.wait(JOIN_TIMEOUT_SECONDS)

    def _run(self) -> None:
        try:
            while True:
                if self._connection.recv_bytes() == JOIN:
                    self._may_join.set()
        except (EOFError, OSError):
            self._on_gone()
            self._may_join.set()


def child_main(spec: WorkerSpec, connection: Connection, target: WorkerTarget | None = None) -> None:
    """Entry point of a worker process. Ends it with the target's exit code.

    An error that the settings, the topology, the records or the group cause is told to the supervisor as fatal. Brokers
    out of reach and crashes are not: the supervisor starts the worker again.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    settings = spec.settings
    configure_logging(settings.log_format, settings.log_level, group=settings.application_id, worker=spec.worker_index)
    sys.exit(_run_target(spec, connection, target))


def _run_target(spec: WorkerSpec, connection: Connection, target: WorkerTarget | None) -> int:
    try:
        if target is None:
            from kstreams_worker.runtime.worker import run_worker  # noqa: PLC0415 - the supervisor never needs it

            target = run_worker
        return target(spec, connection)
    except KStreamsError as error:
        if DEBUG_VARIABLE in os.environ:
            log.exception("Worker ends")
        if isinstance(error, BrokerError):
            log.error("Worker ends", error=str(error))  # noqa: TRY400 - one line, unless the traceback is asked for
            return error.exit_code
        sender = MessageSender(connection)
        sender.fatal(str(error), error.exit_code)
        sender.close()
        return error.exit_code
    except Exception:
        log.exception("Worker crashed")
        return 1
