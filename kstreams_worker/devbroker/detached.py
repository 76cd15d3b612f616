"""A development cluster that outlives the command that started it: `kstreams-worker broker start`, `status` and `stop`.

What is running stands in `running.json` in its data directory: for each node the process id and when that process was
created, so that a process id given to somebody else in the meantime is never taken for a broker.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import platformdirs
import psutil

from kstreams_worker.devbroker.cluster import Cluster
from kstreams_worker.devbroker.properties import NodeAddress
from kstreams_worker.devbroker.server import HEAP_MB, NodeDirectory, server_command
from kstreams_worker.errors import BrokerError, UsageError
from kstreams_worker.io.ready import wait_until_ready

NodeState = Literal["ready", "not answering", "stopped"]

_FILE_NAME = "running.json"
_READY_TIMEOUT_S = 60.0
_STATUS_TIMEOUT_S = 3.0
_STOP_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node; `pid` is None while it is stopped."""

    node_id: int
    address: str
    state: NodeState
    pid: int | None


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A cluster under `data_dir`; without nodes if there is none."""

    data_dir: Path
    nodes: tuple[NodeStatus, ...]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.address for node in self.nodes)

    @property
    def is_ready(self) -> bool:
        """Whether all nodes answer."""
        return bool(self.nodes) and all(node.state == "ready" for node in self.nodes)


def default_data_dir() -> Path:
    """Where the user's own development cluster is kept."""
    return Path(platformdirs.user_data_dir("kstreams-worker"), "broker")


def start(
    data_dir: Path,
    nodes: int | None = None,
    port: int | None = None,
    properties: Mapping[str, str | int] | None = None,
    *,
    heap_mb: int = HEAP_MB,
) -> BrokerStatus:
    """Start those nodes of the cluster under `data_dir` that do not run, and wait until all answer.

    `nodes` and `port` (of the first node) are by default those of the cluster kept there, else one node on a free port.
    Raises UsageError if they differ from a cluster that runs, BrokerError if a node does not come up: then none is left.
    """
    with _locked(data_dir):
        cluster = Cluster.read(data_dir)
        running = _running(data_dir)
        if cluster is not None and running:
            _refuse_difference(cluster, nodes, port)
        else:
            cluster = Cluster.open(data_dir, nodes or (len(cluster.nodes) if cluster else 1), port)
            cluster.prepare(properties or {})
        try:
            for node in cluster.nodes:
                if node.node_id not in running:
                    running[node.node_id] = _launch(cluster.directory(node), heap_mb)
                    _remember(data_dir, running)
            for node in cluster.nodes:
                _wait_until_ready(cluster, node, running[node.node_id])
        except BaseException:
            _end(running.values())
            _remember(data_dir, {})
            raise
        return status(data_dir)


def stop(data_dir: Path, *, delete_data: bool = False) -> bool:
    """End the cluster's nodes, in an orderly way if they manage that in time. False if none was running."""
    if not data_dir.is_dir():
        return False
    with _locked(data_dir):
        running = _running(data_dir)
        _end(running.values())
        _remember(data_dir, {})
        if delete_data and Cluster.read(data_dir) is not None:
            shutil.rmtree(data_dir)
        return bool(running)


def status(data_dir: Path) -> BrokerStatus:
    """What runs under `data_dir`; asks each running node for its metadata."""
    cluster = Cluster.read(data_dir)
    if cluster is None:
        return BrokerStatus(data_dir, ())
    running = _running(data_dir)
    return BrokerStatus(data_dir, tuple(_node_status(node, running.get(node.node_id)) for node in cluster.nodes))


def _node_status(node: NodeAddress, process: psutil.Process | None) -> NodeStatus:
    state: NodeState = "stopped"
    if process is not None:
        try:
            wait_until_ready(node.client_address, broker_ids=(node.node_id,), timeout_s=_STATUS_TIMEOUT_S)
            state = "ready"
        except BrokerError:
            state = "not answering"
    return NodeStatus(node.node_id, node.client_address, state, process.pid if process else None)


def _refuse_difference(cluster: Cluster, nodes: int | None, port: int | None) -> None:
    if nodes not in (None, len(cluster.nodes)):
        raise UsageError(f"a cluster of {len(cluster.nodes)} node(s) is running, not {nodes}; stop it first")
    if port not in (None, cluster.nodes[0].client_port):
        raise UsageError(f"a cluster is running on port {cluster.nodes[0].client_port}, not {port}; stop it first")


def _launch(directory: NodeDirectory, heap_mb: int) -> psutil.Process:
    with directory.log_file.open("ab") as log:
        process = psutil.Popen(
            server_command(directory, heap_mb, java_options=()),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return psutil.Process(process.pid)


def _wait_until_ready(cluster: Cluster, node: NodeAddress, process: psutil.Process) -> None:
    def check_running() -> None:
        if not _is_alive(process):
            raise BrokerError(f"broker node {node.node_id} ended:\n{cluster.directory(node).log_tail()}")

    wait_until_ready(
        node.client_address,
        broker_ids=[each.node_id for each in cluster.nodes],
        timeout_s=_READY_TIMEOUT_S,
        check=check_running,
    )


def _end(processes: Iterable[psutil.Process]) -> None:
    remaining = list(processes)
    for process in remaining:
        with _gone_is_fine():
            process.terminate()
            process.resume()
    _, remaining = psutil.wait_procs(remaining, timeout=_STOP_TIMEOUT_S)
    for process in remaining:
        with _gone_is_fine():
            process.kill()
    psutil.wait_procs(remaining, timeout=_STOP_TIMEOUT_S)


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except psutil.NoSuchProcess:
        return


def _running(data_dir: Path) -> dict[int, psutil.Process]:
    """The live processes, by node id."""
    try:
        entries = json.loads((data_dir / _FILE_NAME).read_text())
    except FileNotFoundError:
        return {}
    running = {}
    for entry in entries:
        with _gone_is_fine():
            process = psutil.Process(entry["pid"])
            if process.create_time() == entry["created_s"] and _is_alive(process):
                running[entry["node_id"]] = process
    return running


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _remember(data_dir: Path, running: Mapping[int, psutil.Process]) -> None:
    entries = []
    for node_id, process in running.items():
        with _gone_is_fine():
            entries.append({"node_id": node_id, "pid": process.pid, "created_s": process.create_time()})
    unfinished = data_dir / f".{_FILE_NAME}"
    unfinished.write_text(json.dumps(entries) + "\n")
    unfinished.replace(data_dir / _FILE_NAME)


@contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    """Let one command at a time change what runs under `data_dir`."""
    data_dir.mkdir(parents=True, exist_ok=True)
    with (data_dir / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
