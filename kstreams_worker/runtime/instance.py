"""An instance from settings to exit code: topology, state directory, status pages, banner, supervisor."""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import sys
import threading
from typing import Any
from uuid import UUID

import structlog

from assignor.model import LATEST_VERSION
from kstreams_worker.config import Settings
from kstreams_worker.errors import BrokerError, StateError
from kstreams_worker.observe.http import StatusServer, TopologyPictures, build_app
from kstreams_worker.observe.log import configure_logging
from kstreams_worker.observe.versions import versions
from kstreams_worker.runtime.child import WorkerTarget
from kstreams_worker.runtime.load import load_topology
from kstreams_worker.runtime.supervisor import OnWorkerDeath, Supervisor
from state.directory import StateDirectory
from state.errors import StateError as StateRoomError

log = structlog.get_logger(__name__)


def run_instance(settings: Settings, topology_ref: str, target: WorkerTarget | None = None) -> int:
    """Run the instance's workers until they have ended; returns the exit code.

    The topology is loaded here too, before any process is started, so that a mistake in it is told once. Raises
    UsageError for that and for a port that is taken, StateError for a state directory that cannot be used. `target` is
    what runs in the worker processes (default: the streams worker).
    """
    configure_logging(settings.log_format, settings.log_level, group=settings.application_id)
    topology = load_topology(topology_ref)
    if target is None:
        _require_brokers(settings)
    with contextlib.ExitStack() as closing:
        directory = _open_state_directory(settings, closing)
        supervisor = Supervisor(
            settings,
            topology_ref,
            settings.num_workers,
            process_id=str(directory.process_id),
            target=target,
            on_worker_death=_member_remover(settings),
        )
        address = None
        if settings.http_port is not None:
            pictures = TopologyPictures(topology.describe(), topology.mermaid())
            server = StatusServer(build_app(supervisor.board, pictures), settings.http_host, settings.http_port)
            closing.callback(server.stop)
            address = server.start()
        _show_banner(start_facts(settings, topology_ref, str(directory.process_id), address), settings.log_format)
        exit_code = supervisor.run()
        if supervisor.has_left_by_order:
            _forget_order(settings, directory.process_id)
        return exit_code


def _forget_order(settings: Settings, process_id: UUID) -> None:
    """The order to leave is carried out: who starts this instance again wants it to run."""
    from kstreams_worker.control.orders import OrderBook  # noqa: PLC0415 - the supervisor needs it only here

    try:
        OrderBook(settings.client_config("admin"), settings.application_id).delete([process_id])
    except BrokerError as error:
        log.warning("the order to leave could not be deleted: take it back with scale-down --cancel", error=str(error))
    else:
        log.info("left the group for good, as ordered; started again, this instance joins as before")


def _require_brokers(settings: Settings) -> None:
    """Ask the brokers for anything, so that a wrong address is told once and at once. Raises BrokerError."""
    from kstreams_worker.io.admin import Admin  # noqa: PLC0415 - the supervisor needs it only here

    Admin(settings.client_config("admin"), client_id=f"{settings.application_id}-start").require_brokers()


def start_facts(settings: Settings, topology_ref: str, process_id: str, address: str | None) -> dict[str, Any]:
    """What one asks for in a bug report: no secret is among it."""
    given = {line.name: line.value for line in settings.describe() if line.source != "default"}
    return {
        "application": settings.application_id,
        "topology": topology_ref,
        "brokers": settings.bootstrap_servers,
        "protocol": f"{settings.stream_rebalancing_mode}, metadata version {LATEST_VERSION}",
        "guarantee": settings.processing_guarantee,
        "workers": settings.num_workers,
        "capacity": settings.instance_capacity,
        "standbys": settings.num_standby_tasks,
        "state": str(settings.state_dir),
        "instance": f"{process_id} on {socket.gethostname()}, pid {os.getpid()}",
        "status": address or "no status pages; set http.port",
        "versions": ", ".join(f"{name} {number}" for name, number in versions().items()),
        "settings": ", ".join(f"{name}={value}" for name, value in given.items()),
    }


def _member_remover(settings: Settings) -> OnWorkerDeath | None:
    """What takes a dead worker out of its group at once. A static member stays in it: it is back in a moment."""
    if settings.group_instance_id is not None:
        return None

    def remove(_index: int, member_id: str) -> None:
        from kstreams_worker.group.client import GroupClient  # noqa: PLC0415 - see below

        with GroupClient.connect(settings.group_plane_config()) as client:
            client.remove(settings.application_id, member_id)

    # Loading it takes as long as the rest of telling of a death, so it is not left until then; and no start waits for it.
    threading.Thread(target=importlib.import_module, args=["kstreams_worker.group.client"], daemon=True).start()
    return remove


def _open_state_directory(settings: Settings, closing: contextlib.ExitStack) -> StateDirectory:
    try:
        directory = StateDirectory(settings.state_dir.expanduser(), settings.application_id)
        directory.lock_instance()
    except StateRoomError as error:
        raise StateError(str(error)) from error
    closing.callback(directory.unlock_instance)
    return directory


def _show_banner(facts: dict[str, Any], log_format: str) -> None:
    if log_format == "json" or not sys.stderr.isatty():
        log.info("Starting", **facts)
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:>{width}}  {value}", file=sys.stderr)
