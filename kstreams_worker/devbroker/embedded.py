"""A real Kafka cluster inside a `with` block, for tests and the demo."""

from __future__ import annotations

import functools
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kstreams_worker.devbroker.cluster import Cluster
from kstreams_worker.devbroker.node import GuardedNode
from kstreams_worker.devbroker.server import HEAP_MB, QUICK_START, server_command
from kstreams_worker.errors import UsageError
from kstreams_worker.io.ready import wait_until_ready

_READY_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 20.0


class EmbeddedBroker:
    """Apache Kafka in KRaft mode on free ports of the loopback address; each node is broker and controller.

    The nodes belong to this process: they end with the `with` block, and also when this process is killed. Nodes are
    numbered from 1, as the broker ids in Kafka's metadata are. Not thread-safe.
    """

    def __init__(
        self,
        nodes: int = 1,
        data_dir: Path | None = None,
        properties: Mapping[str, str | int] | None = None,
        *,
        heap_mb: int = HEAP_MB,
        java_options: Sequence[str] = QUICK_START,
    ) -> None:
        """Start nothing yet.

        `data_dir` keeps the data after the end, for another broker to continue with; without it the data go to a
        temporary directory that is removed. `properties` are added to each node's server.properties. `java_options`
        favour a quick start; pass none for a broker that works hard for long.
        """
        self._node_count = nodes
        self._data_dir = data_dir
        self._properties = dict(properties or {})
        self._heap_mb = heap_mb
        self._java_options = tuple(java_options)
        self._cluster: Cluster | None = None
        self._running: dict[int, GuardedNode] = {}

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """For clients: the addresses of all nodes."""
        return self._started.bootstrap_servers

    @property
    def directory(self) -> Path:
        """Where the nodes keep their data and logs."""
        return self._started.path

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(node.node_id for node in self._started.nodes)

    @property
    def running_node_ids(self) -> tuple[int, ...]:
        return tuple(sorted(node_id for node_id, node in self._running.items() if node.is_running))

    def node_pid(self, node_id: int) -> int:
        """The process id of a running node."""
        return self._running_node(node_id).pid

    def log_tail(self, node_id: int) -> str:
        """The end of a node's log."""
        return self._started.directory(self._started.node(node_id)).log_tail()

    def start(self) -> Self:
        """Start all nodes; returns when each of them answers. Raises BrokerError with a node's log if one does not."""
        if self._cluster is not None:
            raise UsageError("this broker has been started already")
        path = self._data_dir or Path(tempfile.mkdtemp(prefix="kstreams-broker-"))
        try:
            self._cluster = Cluster.open(path, self._node_count)
            self._cluster.prepare(self._properties)
            for node_id in self.node_ids:
                self._launch(node_id)
            for node_id in self.node_ids:
                self._wait_until_ready(node_id, self.node_ids)
        except BaseException:
            self.close()
            if self._data_dir is None:
                shutil.rmtree(path, ignore_errors=True)
            raise
        return self

    def close(self) -> None:
        """End all nodes; harmless when repeated. Data that nobody asked to keep are not shut down, only removed."""
        if self._data_dir is None:
            for node in self._running.values():
                node.kill()
        else:
            for node in self._running.values():
                node.send(signal.SIGTERM)
                node.send(signal.SIGCONT)
            # The last node may find no majority of controllers to say goodbye to, hence one deadline for all.
            deadline = time.monotonic() + _STOP_TIMEOUT_S
            for node in self._running.values():
                node.stop(timeout_s=max(0.0, deadline - time.monotonic()))
        self._running.clear()
        if self._cluster is not None:
            if self._data_dir is None:
                shutil.rmtree(self._cluster.path, ignore_errors=True)
            self._cluster = None

    def start_node(self, node_id: int) -> None:
        """Start a stopped node on its old port and data; returns when it answers."""
        self._started.node(node_id)
        if node_id in self.running_node_ids:
            raise UsageError(f"node {node_id} is running already")
        self._launch(node_id)
        self._wait_until_ready(node_id, (node_id,))

    def stop_node(self, node_id: int) -> None:
        """Shut a node down in an orderly way: it hands its partitions over first."""
        self._running_node(node_id).stop(_STOP_TIMEOUT_S)
        del self._running[node_id]

    def kill_node(self, node_id: int) -> None:
        """End a node at once, as `kill -9` does."""
        self._running_node(node_id).kill()
        del self._running[node_id]

    def restart_node(self, node_id: int) -> None:
        """Stop a node and start it again on the same port and data."""
        self.stop_node(node_id)
        self.start_node(node_id)

    def pause_node(self, node_id: int) -> None:
        """Freeze a node (SIGSTOP): its connections stay open, and nothing answers."""
        self._running_node(node_id).send(signal.SIGSTOP)

    def resume_node(self, node_id: int) -> None:
        """Let a frozen node go on."""
        self._running_node(node_id).send(signal.SIGCONT)

    @property
    def _started(self) -> Cluster:
        if self._cluster is None:
            raise UsageError("this broker is not started; use it in a 'with' block")
        return self._cluster

    def _running_node(self, node_id: int) -> GuardedNode:
        self._started.node(node_id)
        if node_id not in self._running:
            raise UsageError(f"node {node_id} is not running")
        return self._running[node_id]

    def _launch(self, node_id: int) -> None:
        cluster = self._started
        directory = cluster.directory(cluster.node(node_id))
        self._running[node_id] = GuardedNode(
            f"broker node {node_id}",
            directory,
            server_command(directory, self._heap_mb, self._java_options),
            remove_if_orphaned=cluster.path if self._data_dir is None else None,
        )

    def _wait_until_ready(self, node_id: int, broker_ids: Sequence[int]) -> None:
        wait_until_ready(
            self._started.node(node_id).client_address,
            broker_ids=broker_ids,
            timeout_s=_READY_TIMEOUT_S,
            check=functools.partial(GuardedNode.check_running, self._running[node_id]),
        )
