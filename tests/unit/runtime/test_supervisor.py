"""The supervisor over real processes: small targets in place of the streams worker.

The targets report to the test, one line a note, so that every wait is for something that happened.
"""

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import worker_targets

from kstreams_worker.config import Settings
from kstreams_worker.errors import BrokerError
from kstreams_worker.runtime.child import WorkerSpec
from kstreams_worker.runtime.restarts import RestartPolicy
from kstreams_worker.runtime.supervisor import Supervisor

DEADLINE_SECONDS = 60.0
QUICK = RestartPolicy(first_delay_seconds=0.01, delay_seconds_max=0.02, restarts_max=1)


class Notes:
    """The test's end of the named pipe."""

    def __init__(self, directory: Path) -> None:
        os.mkfifo(directory / "notes")
        self._fd = os.open(directory / "notes", os.O_RDWR)  # also for writing: it never ends
        self._text = ""

    def next(self) -> str:
        while "\n" not in self._text:
            readable, _, _ = select.select([self._fd], [], [], DEADLINE_SECONDS)
            assert readable, "no note within the deadline"
            self._text += os.read(self._fd, 4096).decode()
        line, self._text = self._text.split("\n", 1)
        return line

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Notes]:
    made = Notes(tmp_path)
    yield made
    made.close()


class Running:
    """A supervisor in a thread of the test."""

    def __init__(self, directory: Path, target: Callable[[WorkerSpec, Connection], int], **more: Any) -> None:
        settings = Settings(application_id="orders", bootstrap_servers="none:1", state_dir=directory, log_format="json")
        workers = more.pop("workers", 1)
        self.supervisor = Supervisor(
            settings, "none:none", workers, process_id="p", target=target, **{"restart_policy": QUICK, **more}
        )
        self.exit_code: int | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.exit_code = self.supervisor.run()

    def join(self) -> int:
        self._thread.join(DEADLINE_SECONDS)
        assert self.exit_code is not None, "the supervisor did not end within the deadline"
        return self.exit_code


def test_it_ends_when_all_workers_have_ended_as_they_should(tmp_path: Path, notes: Notes) -> None:
    """A worker that was told to leave the group exits 0 and is not started again."""
    running = Running(tmp_path, worker_targets.ends_well, workers=2)
    assert running.join() == 0
    assert sorted([notes.next(), notes.next()]) == ["ran 0", "ran 1"]


@pytest.mark.parametrize(
    ("target", "carried_out"), [(worker_targets.leaves_by_order, True), (worker_targets.one_leaves_by_order, False)]
)
def test_an_order_is_carried_out_when_all_workers_have_left(
    tmp_path: Path, target: Callable[[WorkerSpec, Connection], int], carried_out: bool
) -> None:
    """One that ended for another reason may have to leave when it is started again."""
    running = Running(tmp_path, target, workers=2)
    assert running.join() == 0
    assert running.supervisor.has_left_by_order is carried_out


def test_workers_that_start_join_together(tmp_path: Path, notes: Notes) -> None:
    worker_targets.make_pipe(tmp_path, "go")
    running = Running(tmp_path, worker_targets.joins_when_told, workers=3, late_seconds=DEADLINE_SECONDS)
    assert sorted(notes.next() for _ in range(2)) == ["ready 0", "ready 1"]
    (tmp_path / "go").open("w").close()
    assert notes.next() == "ready 2", "nobody has joined before"
    assert sorted(notes.next() for _ in range(3)) == ["joins 0", "joins 1", "joins 2"]
    assert running.join() == 0


def test_a_worker_that_is_late_holds_nobody_up(tmp_path: Path, notes: Notes) -> None:
    worker_targets.make_pipe(tmp_path, "go")
    running = Running(tmp_path, worker_targets.joins_when_told, workers=3, late_seconds=0.1)
    said = [notes.next() for _ in range(4)]
    assert sorted(said) == ["joins 0", "joins 1", "ready 0", "ready 1"]
    (tmp_path / "go").open("w").close()
    assert [notes.next(), notes.next()] == ["ready 2", "joins 2"]
    assert running.join() == 0


def test_a_worker_that_dies_before_it_could_join_holds_nobody_up(tmp_path: Path, notes: Notes) -> None:
    """It is started again, and joins by itself."""
    running = Running(tmp_path, worker_targets.dies_before_it_could_join, workers=3, late_seconds=DEADLINE_SECONDS)
    said = [notes.next() for _ in range(5)]
    assert sorted(said) == [*["came back, and does not wait"], *["joins 0"] * 2, *["ready 0"] * 2]
    assert running.join() == 0


def test_a_killed_worker_is_announced_at_once_and_started_again(tmp_path: Path, notes: Notes) -> None:
    deaths: list[tuple[int, str]] = []
    running = Running(tmp_path, worker_targets.joins_and_dies_once, on_worker_death=lambda *death: deaths.append(death))
    assert notes.next() == "came back"
    assert running.join() == 0
    assert deaths == [(0, "member-7")]


def test_a_death_that_cannot_be_announced_does_not_stop_the_restart(tmp_path: Path, notes: Notes) -> None:
    def unreachable(_index: int, _member_id: str) -> None:
        raise BrokerError("no broker")

    running = Running(tmp_path, worker_targets.joins_and_dies_once, on_worker_death=unreachable)
    assert notes.next() == "came back"
    assert running.join() == 0


def test_a_worker_that_crashes_again_and_again_is_given_up(tmp_path: Path, notes: Notes) -> None:
    running = Running(tmp_path, worker_targets.crashes)
    assert running.join() == 1
    assert [notes.next() for _ in range(QUICK.restarts_max + 1)] == ["crash"] * 2


def test_a_fatal_error_of_one_worker_stops_all_and_gives_its_exit_code(tmp_path: Path, notes: Notes) -> None:
    """Starting again would meet the same record; the other worker stops in order."""
    worker_targets.make_pipe(tmp_path, "go")
    running = Running(tmp_path, worker_targets.record_that_cannot_be_processed, workers=2)
    assert notes.next().startswith("up 0")
    (tmp_path / "go").open("w").close()
    assert notes.next() == "stopped 0"
    assert running.join() == 1


def test_a_mistake_in_usage_is_not_tried_again(tmp_path: Path, notes: Notes) -> None:
    running = Running(tmp_path, worker_targets.mistake_in_usage)
    assert running.join() == 2
    assert notes.next() == "tried"


def test_exit_code_2_without_a_word_is_a_mistake_in_usage_too(tmp_path: Path) -> None:
    assert Running(tmp_path, worker_targets.exits_with_2).join() == 2


def test_a_worker_that_lost_its_brokers_is_started_again(tmp_path: Path) -> None:
    assert Running(tmp_path, worker_targets.loses_the_broker_once).join() == 0


def test_the_first_request_lets_the_workers_finish(tmp_path: Path, notes: Notes) -> None:
    running = Running(tmp_path, worker_targets.waits_for_sigterm, workers=2)
    assert sorted(notes.next()[:4] for _ in range(2)) == ["up 0", "up 1"]
    running.supervisor.request_stop()
    assert sorted(notes.next() for _ in range(2)) == ["stopped 0", "stopped 1"]
    assert running.join() == 0


def test_the_second_request_forces_and_the_third_kills(tmp_path: Path, notes: Notes) -> None:
    """A worker that will not end gets SIGTERM twice before it is killed, and the exit code says that it was not clean."""
    running = Running(tmp_path, worker_targets.never_ends)
    assert notes.next() == "up"
    for _ in range(2):
        running.supervisor.request_stop()
        assert notes.next() == "refused"
    running.supervisor.request_stop()
    assert running.join() == 1


def test_a_worker_that_waits_to_be_started_again_is_not_once_we_stop(tmp_path: Path, notes: Notes) -> None:
    slow = RestartPolicy(first_delay_seconds=1000, delay_seconds_max=1000)
    running = Running(tmp_path, worker_targets.crashes, restart_policy=slow)
    assert [notes.next(), notes.next()] == ["crash", "crash"]
    running.supervisor.request_stop()
    running.join()


def test_reports_reach_the_board_and_leave_it_with_the_worker(tmp_path: Path, notes: Notes) -> None:
    running = Running(tmp_path, worker_targets.reports)
    board = running.supervisor.board
    assert notes.next() == "reported"
    running.supervisor.request_stop()
    assert running.join() == 0
    assert board.status_of(0) is not None
    assert board.readiness().problems == ("worker 0: not running",)
    assert "kstreams_x" not in board.metrics_text()


def start_supervisor(directory: Path) -> subprocess.Popen[bytes]:
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; import worker_targets; worker_targets.supervise({str(directory)!r})"
    )
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("how", ["supervisor alone", "the whole process group", "both, as timeout(1) does"])
def test_signals_stop_it_in_order(tmp_path: Path, notes: Notes, how: str) -> None:
    """SIGTERM from a container platform; SIGINT as a terminal sends it, to every process at once; twice in a moment."""
    process = start_supervisor(tmp_path)
    assert sorted(notes.next()[:4] for _ in range(2)) == ["up 0", "up 1"]
    if how == "the whole process group":
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGTERM)
    if how.startswith("both"):
        os.killpg(process.pid, signal.SIGTERM)
    assert sorted(notes.next() for _ in range(2)) == ["stopped 0", "stopped 1"]
    assert process.wait(DEADLINE_SECONDS) == 0


def test_workers_notice_that_their_supervisor_was_killed(tmp_path: Path, notes: Notes) -> None:
    process = start_supervisor(tmp_path)
    assert sorted(notes.next()[:4] for _ in range(2)) == ["up 0", "up 1"]
    process.kill()
    assert sorted(notes.next() for _ in range(4)) == ["alone", "alone", "stopped 0", "stopped 1"]
    process.wait(DEADLINE_SECONDS)


def test_it_can_be_asked_to_stop_before_and_after_it_ran(tmp_path: Path) -> None:
    running = Running(tmp_path, worker_targets.exits_with_2)
    running.join()
    running.supervisor.request_stop()
