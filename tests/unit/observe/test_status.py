"""The status board: live while loops turn, ready once all have joined and restored."""

from kstreams_worker.observe.metrics import WorkerMetrics
from kstreams_worker.observe.status import StatusBoard, WorkerStatus


class ManualClock:
    """Seconds that only the test moves."""

    def __init__(self) -> None:
        self.now_seconds = 0.0

    def __call__(self) -> float:
        return self.now_seconds


def status(loop_turns: int, ready: bool = True, state: str = "running") -> WorkerStatus:
    return {"state": state, "ready": ready, "member_id": "m", "generation": 1, "loop_turns": loop_turns, "tasks": []}


def board_of(workers: int) -> tuple[StatusBoard, ManualClock]:
    clock = ManualClock()
    board = StatusBoard("orders", workers, loop_deadline_seconds=30, clock=clock)
    for index in range(workers):
        board.worker_started(index)
    return board, clock


def test_reports_alone_do_not_keep_a_worker_alive_its_loop_must_turn() -> None:
    board, clock = board_of(2)
    for second in range(0, 61, 10):
        clock.now_seconds = second
        board.report(0, status(loop_turns=second), "")
        board.report(1, status(loop_turns=5), "")
    assert not board.liveness().ok
    assert board.liveness().problems == ("worker 1: its loop has not turned for 60 s",)


def test_a_starting_worker_has_one_deadline_to_make_its_first_turn() -> None:
    board, clock = board_of(1)
    clock.now_seconds = 30
    assert board.liveness().ok
    clock.now_seconds = 31
    assert not board.liveness().ok
    board.worker_started(0)
    assert board.liveness().ok


def test_a_dead_worker_is_unready_but_not_a_reason_to_restart_the_instance() -> None:
    board, clock = board_of(1)
    board.report(0, status(1), "")
    board.worker_ended(0)
    clock.now_seconds = 100
    assert board.liveness().ok
    assert board.readiness().problems == ("worker 0: not running",)


def test_ready_is_all_workers_ready() -> None:
    board, _ = board_of(3)
    board.report(0, status(1), "")
    board.report(1, status(1, ready=False, state="joining"), "")
    assert board.readiness().problems == ("worker 1: joining", "worker 2: starting")
    board.report(1, status(2), "")
    board.report(2, status(2), "")
    assert board.readiness().ok


def test_series_of_a_dead_worker_are_gone() -> None:
    board, _ = board_of(1)
    board.report(0, status(1), WorkerMetrics().render())
    assert 'kstreams_build_info{group="orders",worker="0"' in board.metrics_text()
    board.worker_ended(0)
    assert board.metrics_text() == ""
    assert board.snapshot()["workers"][0] == {"worker": 0, "running": False, **status(1)}
