"""What runs in worker processes in place of the streams worker. Apart from the tests, so that processes start quickly.

A target reports to the test through a named pipe in the state directory, one line a note.
"""

import os
import queue
import signal
import sys
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from kstreams_worker.config import Settings
from kstreams_worker.errors import BrokerError, RecordError, SettingsError
from kstreams_worker.runtime.child import MessageSender, ParentWatch, WorkerSpec
from kstreams_worker.runtime.supervisor import Supervisor


def note(spec: WorkerSpec, text: str) -> None:
    """Tell the test; one write, so that lines of several processes do not mix."""
    with (spec.settings.state_dir / "notes").open("w", encoding="utf-8") as pipe:
        pipe.write(f"{text}\n")


def ends_well(spec: WorkerSpec, _connection: Connection) -> int:
    note(spec, f"ran {spec.worker_index}")
    return 0


def joins_and_dies_once(spec: WorkerSpec, connection: Connection) -> int:
    marker = spec.settings.state_dir / "died"
    if marker.exists():
        note(spec, "came back")
        return 0
    marker.touch()
    sender = MessageSender(connection)
    sender.member("member-7")
    sender.close()
    os.kill(os.getpid(), signal.SIGKILL)
    return 1


def crashes(spec: WorkerSpec, _connection: Connection) -> int:
    note(spec, "crash")
    raise ZeroDivisionError("a mistake in our own code")


def leaves_by_order(spec: WorkerSpec, connection: Connection) -> int:
    sender = MessageSender(connection)
    sender.left(ordered=True)
    sender.close()
    return 0


def one_leaves_by_order(spec: WorkerSpec, connection: Connection) -> int:
    return leaves_by_order(spec, connection) if spec.worker_index else 0


def stop_queue() -> queue.SimpleQueue[None]:
    """Gets an item with each SIGTERM. Not an event: setting one in a handler that interrupts another waits for ever."""
    told: queue.SimpleQueue[None] = queue.SimpleQueue()
    signal.signal(signal.SIGTERM, lambda *_: told.put(None))
    return told


def waits_for_sigterm(spec: WorkerSpec, connection: Connection) -> int:
    told = stop_queue()
    ParentWatch(connection, lambda: (note(spec, "alone"), told.put(None))).start()  # type: ignore[func-returns-value]
    note(spec, f"up {spec.worker_index} {os.getpid()}")
    told.get()
    note(spec, f"stopped {spec.worker_index}")
    return 0


def joins_when_told(spec: WorkerSpec, connection: Connection) -> int:
    """The last one is ready only when the test says so."""
    if spec.worker_index == 2:
        (spec.settings.state_dir / "go").open().close()  # a named pipe: waits for the test
    parent = ParentWatch(connection, lambda: None)
    parent.start()
    sender = MessageSender(connection)
    note(spec, f"ready {spec.worker_index}")
    sender.prepared()
    parent.wait_for_join()
    sender.close()
    note(spec, f"joins {spec.worker_index}")
    return 0


def dies_before_it_could_join(spec: WorkerSpec, connection: Connection) -> int:
    marker = spec.settings.state_dir / "died"
    if spec.worker_index == 2 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if spec.joins_with_others:
        return joins_when_told(replace(spec, worker_index=0), connection)
    note(spec, "came back, and does not wait")
    return 0


def record_that_cannot_be_processed(spec: WorkerSpec, connection: Connection) -> int:
    if spec.worker_index == 0:
        return waits_for_sigterm(spec, connection)
    (spec.settings.state_dir / "go").open().close()  # a named pipe: waits for the test
    raise RecordError("not an order", "orders", 3, 5)


def mistake_in_usage(spec: WorkerSpec, _connection: Connection) -> int:
    note(spec, "tried")
    raise SettingsError("num.workers: 0")


def exits_with_2(spec: WorkerSpec, _connection: Connection) -> int:
    return 2


def loses_the_broker_once(spec: WorkerSpec, _connection: Connection) -> int:
    marker = spec.settings.state_dir / "lost"
    if marker.exists():
        return 0
    marker.touch()
    raise BrokerError("brokers out of reach")


def never_ends(spec: WorkerSpec, _connection: Connection) -> int:
    def refuse(*_args: object) -> None:
        note(spec, "refused")

    signal.signal(signal.SIGTERM, refuse)
    note(spec, "up")
    while True:
        signal.pause()


def reports(spec: WorkerSpec, connection: Connection) -> int:
    sender = MessageSender(connection)
    text = "# HELP kstreams_x x\n# TYPE kstreams_x gauge\nkstreams_x 1.0\n"
    told = stop_queue()
    sender.status(
        {"state": "stable", "ready": True, "member_id": "m", "generation": 1, "loop_turns": 1, "tasks": []}, text
    )
    sender.member("")
    sender.close()
    note(spec, "reported")
    told.get()
    return 0


def supervise(directory: str) -> None:
    """Main of a process that is a supervisor, for the tests of real signals."""
    settings = Settings(application_id="orders", bootstrap_servers="none:1", state_dir=Path(directory))
    sys.exit(Supervisor(settings, "n:n", 2, process_id="p", target=waits_for_sigterm).run())


def make_pipe(directory: Path, name: str) -> None:
    """A named pipe: who opens it waits for the other side."""
    os.mkfifo(directory / name)


def ends_after_a_go(spec: WorkerSpec, _connection: Connection) -> int:
    (spec.settings.state_dir / "up").open("w").close()
    (spec.settings.state_dir / "go").open().close()
    return 0
