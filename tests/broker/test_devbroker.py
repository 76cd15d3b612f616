"""The development broker: it serves, keeps its data, survives the loss of a node, and leaves no process behind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from kstreams_worker.devbroker.embedded import EmbeddedBroker
from kstreams_worker.errors import BrokerError, UsageError
from kstreams_worker.testing.broker import RunningKafka

pytestmark = pytest.mark.broker

DEADLINE_S = 30.0


def produce(bootstrap_servers: str, topic: str, values: list[str]) -> None:
    failures: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _message: error and failures.append(str(error)))
    assert producer.flush(DEADLINE_S) == 0
    assert failures == []


def consume(bootstrap_servers: str, topic: str, count: int) -> list[str]:
    """`count` values from the topic's beginning, read by a group: so the group coordinator is tried too."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"{topic}-reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([topic])
        messages = consumer.consume(count, timeout=DEADLINE_S)
        return sorted(message.value().decode() for message in messages if message.error() is None)
    finally:
        consumer.close()


def run_cli(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = "from kstreams_worker.cli.broker import app; app()"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


class TestCommandLine:
    """One cluster in the background, through the life that its commands give it."""

    @pytest.fixture
    def data_dir(self, tmp_path: Path) -> Iterator[Path]:
        yield tmp_path / "broker"
        run_cli("stop", "--data-dir", tmp_path / "broker")

    def test_started_twice_is_one_broker_and_stopped_keeps_its_data(self, data_dir: Path) -> None:
        options = ("--data-dir", data_dir)
        assert run_cli("status", *options).returncode == 1

        first = run_cli("start", *options)
        assert first.returncode == 0, first.stderr
        servers = first.stdout.strip().removeprefix("bootstrap.servers=")
        status = json.loads(run_cli("status", *options, "--json").stdout)
        assert (status["ready"], status["bootstrap_servers"]) == (True, servers)
        pid = status["nodes"][0]["pid"]

        assert run_cli("start", *options).stdout == first.stdout
        assert json.loads(run_cli("status", *options, "--json").stdout) == status
        refused = run_cli("start", *options, "--nodes", "3")
        assert refused.returncode != 0
        assert "stop it first" in refused.stderr

        topic = RunningKafka(servers).create_topic()
        produce(servers, topic, ["kept"])
        assert run_cli("stop", *options).returncode == 0
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        assert run_cli("status", *options).returncode == 1
        assert run_cli("stop", *options).returncode == 0

        assert run_cli("start", *options).stdout == first.stdout
        assert consume(servers, topic, 1) == ["kept"]
        assert run_cli("stop", *options, "--delete-data").returncode == 0
        assert not data_dir.exists()


class TestOwner:
    """An embedded broker belongs to the process that started it."""

    OWNER = """
import os, sys
from kstreams_worker.devbroker.embedded import EmbeddedBroker
broker = EmbeddedBroker().start()
if os.fork() == 0:  # a child that inherits the pipe by which the broker's guardian knows its owner
    sys.stdin.read()
    os._exit(0)
print(broker.node_pid(1), broker.directory, flush=True)
sys.stdin.read()
"""

    def test_killed_leaves_neither_broker_nor_data(self) -> None:
        owner = subprocess.Popen(
            [sys.executable, "-c", self.OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with owner:
            assert owner.stdout is not None
            pid, directory = owner.stdout.readline().split(maxsplit=1)
            node = psutil.Process(int(pid))
            guardian = node.parent()
            assert guardian is not None

            owner.kill()

            _, alive = psutil.wait_procs([node, guardian], timeout=DEADLINE_S)
            assert alive == []
            assert not Path(directory.strip()).exists()


class TestOneNode:
    def test_restart_keeps_address_and_data(self, tmp_path: Path) -> None:
        with EmbeddedBroker(data_dir=tmp_path) as broker:
            servers = broker.bootstrap_servers
            topic = RunningKafka(servers).create_topic(partitions=2)
            produce(servers, topic, ["1", "2"])

            broker.kill_node(1)
            assert broker.running_node_ids == ()
            with pytest.raises(KafkaException):
                AdminClient({"bootstrap.servers": servers, "log_level": 0}).list_topics(timeout=0.5)
            broker.start_node(1)

            assert broker.bootstrap_servers == servers
            produce(servers, topic, ["3"])
            assert consume(servers, topic, 3) == ["1", "2", "3"]
        assert (tmp_path / "node-1" / "data").is_dir()

    def test_bad_property_is_named_and_leaves_nothing(self) -> None:
        broker = EmbeddedBroker(properties={"num.io.threads": "many"})
        with pytest.raises(BrokerError, match=r"num\.io\.threads"):
            broker.start()
        with pytest.raises(UsageError, match="not started"):
            _ = broker.bootstrap_servers


class TestThreeNodes:
    def test_serves_without_any_one_node(self, kafka_cluster: RunningKafka) -> None:
        broker = kafka_cluster.embedded
        assert broker is not None
        assert broker.node_ids == broker.running_node_ids == (1, 2, 3)
        topic = kafka_cluster.create_topic(partitions=3)
        replicas = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers}).list_topics(topic)
        assert {len(each.replicas) for each in replicas.topics[topic].partitions.values()} == {3}

        broker.stop_node(1)
        assert broker.running_node_ids == (2, 3)
        produce(kafka_cluster.bootstrap_servers, topic, ["without 1"])
        broker.start_node(1)

        broker.kill_node(2)
        produce(kafka_cluster.bootstrap_servers, topic, ["without 2"])
        assert consume(kafka_cluster.bootstrap_servers, topic, 2) == ["without 1", "without 2"]
        broker.start_node(2)
        assert broker.running_node_ids == (1, 2, 3)
