"""A development cluster as it stands on disk: its id, its nodes' ports, a directory for each node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from kstreams_worker.devbroker.ports import free_ports, is_free
from kstreams_worker.devbroker.properties import NodeAddress
from kstreams_worker.devbroker.server import NodeDirectory, format_storage, new_cluster_id, write_properties
from kstreams_worker.errors import BrokerError, UsageError

_FILE_NAME = "cluster.json"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The layout under `path`. Whether its nodes run is not known here."""

    path: Path
    cluster_id: str
    nodes: tuple[NodeAddress, ...]

    @classmethod
    def open(cls, path: Path, nodes: int = 1, port: int | None = None) -> Cluster:
        """The cluster kept under `path`, a new one if there is none. Its nodes must not be running.

        A kept cluster keeps its ports while nobody else has taken them; `port`, if given, is for its first node. Raises
        UsageError if the kept cluster has another number of nodes, or if `port` is taken.
        """
        if nodes < 1:
            raise UsageError(f"a cluster needs at least one node, not {nodes}")
        if port is not None and not is_free(port):
            raise UsageError(f"port {port} is already in use; choose another one")
        kept = cls.read(path)
        if kept is not None and len(kept.nodes) != nodes:
            raise UsageError(
                f"{path} holds a cluster of {len(kept.nodes)} node(s), not {nodes}; delete it or use another directory"
            )
        cluster = cls(path.resolve(), kept.cluster_id if kept else new_cluster_id(), _addresses(kept, nodes, port))
        cluster.path.mkdir(parents=True, exist_ok=True)
        description = {"cluster_id": cluster.cluster_id, "nodes": [asdict(node) for node in cluster.nodes]}
        (cluster.path / _FILE_NAME).write_text(json.dumps(description, indent=2) + "\n")
        return cluster

    @classmethod
    def read(cls, path: Path) -> Cluster | None:
        """The cluster kept under `path`, None if there is none. Raises BrokerError if its description is damaged."""
        file = path / _FILE_NAME
        try:
            description = json.loads(file.read_text())
            nodes = tuple(NodeAddress(**node) for node in description["nodes"])
            return cls(path.resolve(), description["cluster_id"], nodes)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise BrokerError(f"{file} is damaged ({error}); delete {path} to begin anew") from error

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.client_address for node in self.nodes)

    def node(self, node_id: int) -> NodeAddress:
        """Raises UsageError if there is no such node."""
        if not 1 <= node_id <= len(self.nodes):
            raise UsageError(f"the cluster has nodes 1 to {len(self.nodes)}, not {node_id}")
        return self.nodes[node_id - 1]

    def directory(self, node: NodeAddress) -> NodeDirectory:
        return NodeDirectory(self.path / f"node-{node.node_id}")

    def prepare(self, properties: Mapping[str, str | int]) -> None:
        """Write each node's properties and format what is not formatted yet. Raises BrokerError."""
        for node in self.nodes:
            write_properties(self.directory(node), node, self.nodes, properties)
        format_storage([self.directory(node) for node in self.nodes], self.cluster_id)


def _addresses(kept: Cluster | None, nodes: int, port: int | None) -> tuple[NodeAddress, ...]:
    if kept is not None:
        ports = [each for node in kept.nodes for each in (node.client_port, node.controller_port)]
        unwanted = port is not None and ports[0] != port
        if not unwanted and all(is_free(each) for each in ports):
            return kept.nodes
    ports = free_ports(2 * nodes)
    if port is not None:
        ports[0] = port
    return tuple(NodeAddress(index + 1, ports[2 * index], ports[2 * index + 1]) for index in range(nodes))
