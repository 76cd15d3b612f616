"""The `server.properties` of a development broker: Apache Kafka in KRaft mode, each node broker and controller at once.

What differs from Kafka's defaults is meant for a short-lived broker on one machine that is started often: few
partitions in the internal topics, replication as the number of nodes allows, groups that start without delay, sessions
that may be short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
# Replication that survives the loss of any one node; more would only cost time.
_REPLICATION_FACTOR_MAX = 3


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """One node of the cluster. `node_id` counts from 1."""

    node_id: int
    client_port: int
    controller_port: int

    @property
    def client_address(self) -> str:
        return f"{HOST}:{self.client_port}"


def development_properties(node_count: int) -> dict[str, str | int]:
    """What makes a broker a development broker, wherever it runs; under Kafka's own names."""
    replicas = min(_REPLICATION_FACTOR_MAX, node_count)
    in_sync_replicas_min = max(1, replicas - 1)
    return {
        # Topics are created on purpose, with the partitions they need: a typing error must not make one.
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync_replicas_min,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync_replicas_min,
        "transaction.state.log.num.partitions": 3,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync_replicas_min,
        "share.coordinator.state.topic.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
        "group.streams.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
        # A node that was killed is noticed, and may come back, after 3 s instead of 9 s; elections follow at once.
        "broker.heartbeat.interval.ms": 500,
        "broker.session.timeout.ms": 3000,
        "controller.quorum.election.timeout.ms": 500,
        "controller.quorum.election.backoff.max.ms": 500,
        # The defaults' 128 MiB of cleaner buffer would be a quarter of the heap.
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        "log.cleaner.backoff.ms": 1000,
    }


def server_properties(
    node: NodeAddress, cluster: Sequence[NodeAddress], data_directory: Path, overrides: Mapping[str, str | int]
) -> str:
    """The text of the file. `overrides` win over everything else, under Kafka's own names."""
    properties: dict[str, str | int] = {
        "process.roles": "broker,controller",
        "node.id": node.node_id,
        "controller.quorum.voters": ",".join(f"{peer.node_id}@{HOST}:{peer.controller_port}" for peer in cluster),
        "listeners": f"CLIENT://{HOST}:{node.client_port},CONTROLLER://{HOST}:{node.controller_port}",
        "advertised.listeners": f"CLIENT://{HOST}:{node.client_port}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data_directory),
        **development_properties(len(cluster)),
        **overrides,
    }
    return "".join(f"{name}={_escaped(str(value))}\n" for name, value in properties.items())


def _escaped(value: str) -> str:
    # A Java properties file takes the backslash for an escape and ends a value at the line's end.
    return value.replace("\\", "\\\\").replace("\n", "\\n")
