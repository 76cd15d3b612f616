"""A real Kafka for tests: in a container where a Docker daemon answers, else run from its jars.

Both are Apache Kafka of the same version with the same settings, so a test need not know which one it has.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from kstreams_worker.devbroker.ports import free_ports
from kstreams_worker.devbroker.properties import HOST, development_properties
from kstreams_worker.errors import BrokerError, KStreamsError
from kstreams_worker.io.admin import Admin, TopicSpec
from kstreams_worker.io.ready import wait_until_ready

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

    from kstreams_worker.devbroker.embedded import EmbeddedBroker

BrokerKind = Literal["auto", "docker", "embedded"]

# The version of deploy/jars/broker/pom.xml; a test compares them.
DOCKER_IMAGE = "apache/kafka:4.2.2"

_TOPIC_VISIBLE_TIMEOUT_S = 10.0
_CONTAINER_CLIENT_PORT = 9092


class RunningKafka:
    """A Kafka that answers at `bootstrap_servers`, with what tests need of it.

    `embedded` stops and starts its nodes; it is None if Kafka runs in a container.
    """

    def __init__(self, bootstrap_servers: str, embedded: EmbeddedBroker | None = None) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.embedded = embedded
        self._admin = Admin({"bootstrap.servers": bootstrap_servers})
        self._run = uuid.uuid4().hex[:6]
        self._counter = itertools.count(1)

    def unique_name(self, prefix: str = "test") -> str:
        """A name, for a topic or a group, that no other test of this broker has used."""
        return f"{prefix}-{self._run}-{next(self._counter)}"

    def create_topic(
        self, name: str | None = None, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic, wait until clients can see it, and return its name: `name`, or a unique one.

        Raises BrokerError if a topic of that name exists with another number of partitions.
        """
        topic = name or self.unique_name("topic")
        self._admin.create_topics([TopicSpec(topic, partitions, config=dict(config or {}))])
        deadline = time.monotonic() + _TOPIC_VISIBLE_TIMEOUT_S
        while True:
            found = self._admin.partition_counts([topic]).get(topic)
            if found == partitions:
                return topic
            if found is not None:
                raise BrokerError(f"topic {topic} exists with {found} partition(s), not {partitions}")
            if time.monotonic() >= deadline:
                raise BrokerError(f"topic {topic} was created but cannot be seen after {_TOPIC_VISIBLE_TIMEOUT_S:g} s")


@contextmanager
def running_kafka(kind: BrokerKind = "auto") -> Iterator[RunningKafka]:
    """One Kafka node for the length of a `with` block. Raises KStreamsError if neither kind can be started."""
    in_docker = kind != "embedded" and docker_answers()
    if kind == "docker" and not in_docker:
        raise KStreamsError(
            "no Docker daemon answers, or Testcontainers is missing (pip install 'kstreams-worker[testing]'); "
            "--kafka-broker=embedded runs Kafka without them"
        )
    with _kafka_in_docker() if in_docker else embedded_kafka(nodes=1) as kafka:
        yield kafka


@contextmanager
def embedded_kafka(nodes: int) -> Iterator[RunningKafka]:
    """A cluster run from its jars, whose nodes a test can stop and start through `.embedded`."""
    from kstreams_worker.devbroker.embedded import EmbeddedBroker  # noqa: PLC0415 - not needed where Docker is

    with EmbeddedBroker(nodes) as broker:
        yield RunningKafka(broker.bootstrap_servers, broker)


def docker_answers() -> bool:
    """Whether Testcontainers is installed and a Docker daemon answers it."""
    # In a process of its own: without a daemon the client leaves an open socket behind, which pytest reports as a leak.
    probe = "import docker, testcontainers.core; docker.from_env(timeout=3).ping()"
    return subprocess.run([sys.executable, "-c", probe], capture_output=True, check=False).returncode == 0


@contextmanager
def _kafka_in_docker() -> Iterator[RunningKafka]:
    from docker.errors import DockerException  # noqa: PLC0415 - optional
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - optional

    # The address that clients are told must be known before the container runs, so the port is chosen here.
    (port,) = free_ports(1)
    container = DockerContainer(DOCKER_IMAGE).with_bind_ports(_CONTAINER_CLIENT_PORT, port)
    address = f"{container.get_docker_client().host()}:{port}"
    for name, value in container_properties(address).items():
        container.with_env("KAFKA_" + name.upper().replace(".", "_"), str(value))
    try:
        container.start()
    except DockerException as error:
        raise KStreamsError(
            f"{DOCKER_IMAGE} cannot be run in Docker ({error}); --kafka-broker=embedded runs Kafka without it"
        ) from error
    try:
        wait_until_ready(address, broker_ids=(1,), check=lambda: _raise_if_ended(container))
        yield RunningKafka(address)
    finally:
        container.stop()


def _raise_if_ended(container: DockerContainer) -> None:
    server = container.get_wrapped_container()
    server.reload()
    if server.status == "exited":
        last_lines = server.logs(tail=20).decode(errors="replace").strip()
        raise BrokerError(f"Kafka ended in its container:\n{last_lines}")


def container_properties(client_address: str) -> dict[str, str | int]:
    """The server's properties in the container; clients outside reach it at `client_address`."""
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{HOST}:9093",
        # The broker also talks to itself, and cannot use the address of the clients outside for that.
        "listeners": f"CLIENT://0.0.0.0:{_CONTAINER_CLIENT_PORT},INTERNAL://{HOST}:9094,CONTROLLER://{HOST}:9093",
        "advertised.listeners": f"CLIENT://{client_address},INTERNAL://{HOST}:9094",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "controller.listener.names": "CONTROLLER",
        **development_properties(node_count=1),
    }
