"""The status pages of an instance: health, metrics, tasks, topology. Read-only; served by a thread of the supervisor.

They show no setting and no record, so nothing secret; still they bind to the loopback address unless told otherwise.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass

import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from kstreams_worker.errors import UsageError
from kstreams_worker.observe.metrics import CONTENT_TYPE
from kstreams_worker.observe.status import StatusBoard, Verdict

log = structlog.get_logger(__name__)

INDEX = """\
/live      200 while each worker's loop turns within its deadline
/ready     200 once every worker has joined and restored its active tasks
/metrics   Prometheus
/tasks     workers and their tasks, JSON
/topology  the topology; ?format=mermaid for a picture
"""

START_TIMEOUT_SECONDS = 10.0
STOP_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class TopologyPictures:
    """A topology as text, the way Kafka prints it, and as a Mermaid diagram."""

    text: str
    mermaid: str


def build_app(board: StatusBoard, topology: TopologyPictures) -> Starlette:
    """The pages over a board."""

    async def index(_request: Request) -> Response:
        return PlainTextResponse(INDEX)

    async def live(_request: Request) -> Response:
        return _health(board.liveness())

    async def ready(_request: Request) -> Response:
        return _health(board.readiness())

    async def metrics(_request: Request) -> Response:
        return Response(board.metrics_text(), media_type=CONTENT_TYPE)

    async def tasks(_request: Request) -> Response:
        return JSONResponse(board.snapshot())

    async def show_topology(request: Request) -> Response:
        pictures = {"text": topology.text, "mermaid": topology.mermaid}
        wanted = request.query_params.get("format", "text")
        if wanted not in pictures:
            return PlainTextResponse(f"format is one of {', '.join(pictures)}\n", status_code=400)
        return PlainTextResponse(pictures[wanted])

    pages = {
        "/": index,
        "/live": live,
        "/ready": ready,
        "/metrics": metrics,
        "/tasks": tasks,
        "/topology": show_topology,
    }
    return Starlette(routes=[Route(path, page, methods=["GET"]) for path, page in pages.items()])


class StatusServer:
    """Serves an app from a thread of its own, from `start` to `stop`. Errors of a page never reach the supervisor."""

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        """`port` 0 takes any free one."""
        self._app = app
        self._host = host
        self._port = port
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> str:
        """Bind and serve; returns the address, such as `http://127.0.0.1:8080`. Raises UsageError if it cannot bind."""
        listener = self._bind()
        config = uvicorn.Config(
            self._app, log_config=None, access_log=False, lifespan="off", ws="none", timeout_graceful_shutdown=1
        )
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listener],), name="http", daemon=True)
        self._thread.start()
        if not self._server.serving.wait(START_TIMEOUT_SECONDS):
            raise UsageError(f"the status pages did not start within {START_TIMEOUT_SECONDS:.0f} s; see the log")
        host, port = listener.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def stop(self) -> None:
        """Stop serving. Harmless if it was never started."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join(STOP_TIMEOUT_SECONDS)
        if self._thread.is_alive():
            log.warning("The status pages did not stop in time")

    def _bind(self) -> socket.socket:
        try:
            family, kind, _, _, address = socket.getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with contextlib.ExitStack() as on_error:
                listener = on_error.enter_context(socket.socket(family, kind))
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(address)
                listener.listen()
                on_error.pop_all()
        except OSError as error:
            raise UsageError(
                f"http.port: cannot listen on {self._host}:{self._port}: {error.strerror}; choose another, or 0 for any"
            ) from error
        return listener


class _Server(uvicorn.Server):
    """Uvicorn's server, which says when it serves."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serving = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serving.set()


def _health(verdict: Verdict) -> Response:
    return PlainTextResponse(
        "".join(f"{problem}\n" for problem in verdict.problems) or "ok\n", 200 if verdict.ok else 503
    )
