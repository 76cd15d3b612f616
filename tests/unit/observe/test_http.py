"""The status pages, over a real socket."""

import socket
from collections.abc import Iterator

import httpx
import pytest

from kstreams_worker.errors import UsageError
from kstreams_worker.observe.http import StatusServer, TopologyPictures, build_app
from kstreams_worker.observe.metrics import SupervisorMetrics
from kstreams_worker.observe.status import StatusBoard, WorkerStatus

RUNNING: WorkerStatus = {
    "state": "running",
    "ready": True,
    "member_id": "m-1",
    "generation": 4,
    "loop_turns": 1,
    "tasks": [{"task": "0_1", "role": "active", "state": "running", "lag_records": 2, "restored": None, "end": None}],
}


@pytest.fixture
def board() -> StatusBoard:
    board = StatusBoard("orders", 1, loop_deadline_seconds=60, supervisor_metrics=SupervisorMetrics().render)
    board.worker_started(0)
    return board


@pytest.fixture
def client(board: StatusBoard) -> Iterator[httpx.Client]:
    server = StatusServer(build_app(board, TopologyPictures("Topologies:\n", "flowchart TD\n")), "127.0.0.1", 0)
    with httpx.Client(base_url=server.start(), trust_env=False) as client:
        yield client
    server.stop()


def test_health_pages_follow_the_board(board: StatusBoard, client: httpx.Client) -> None:
    assert client.get("/live").status_code == 200
    starting = client.get("/ready")
    assert (starting.status_code, starting.text) == (503, "worker 0: starting\n")
    board.report(0, RUNNING, "")
    assert client.get("/ready").status_code == 200


def test_tasks_and_metrics_show_the_newest_report(board: StatusBoard, client: httpx.Client) -> None:
    board.report(0, RUNNING, "# HELP kstreams_x x\n# TYPE kstreams_x gauge\nkstreams_x 1.0\n")
    assert client.get("/tasks").json() == {
        "group": "orders",
        "workers": [{"worker": 0, "running": True, **RUNNING}],
    }
    metrics = client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'kstreams_x{group="orders",worker="0"} 1.0' in metrics.text
    assert 'kstreams_workers{group="orders",worker="supervisor"} 0.0' in metrics.text


def test_topology_in_both_forms(client: httpx.Client) -> None:
    assert client.get("/topology").text == "Topologies:\n"
    assert client.get("/topology?format=mermaid").text == "flowchart TD\n"
    assert client.get("/topology?format=svg").status_code == 400


def test_index_names_the_pages_and_nothing_can_be_written(client: httpx.Client) -> None:
    pages = [line.split()[0] for line in client.get("/").text.splitlines()]
    assert pages == ["/live", "/ready", "/metrics", "/tasks", "/topology"]
    assert {client.post(page).status_code for page in pages} == {405}
    assert client.get("/settings").status_code == 404


def test_a_port_in_use_is_a_mistake_in_usage_not_a_traceback() -> None:
    app = build_app(StatusBoard("orders", 1, 60), TopologyPictures("", ""))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use"):
            StatusServer(app, "127.0.0.1", port).start()
    StatusServer(app, "127.0.0.1", port).stop()
