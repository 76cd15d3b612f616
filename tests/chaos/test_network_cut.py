"""A worker that is cut off from the network past its session timeout, while the others go on, and that comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.application import application
from harness.proxy import Link

from kstreams_worker.devbroker.cluster import Cluster
from kstreams_worker.devbroker.embedded import EmbeddedBroker
from kstreams_worker.devbroker.properties import HOST
from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


@pytest.fixture
def link() -> Iterator[Link]:
    with Link() as made:
        yield made


@pytest.fixture
def kafka_behind_link(link: Link, tmp_path: Path) -> Iterator[RunningKafka]:
    """A broker with a second listener: who comes by the link is told to go on by the link."""
    directory = tmp_path / "kafka"
    [node] = Cluster.open(directory).nodes  # made here, so that its ports are known before it starts
    properties = {
        "listeners": f"CLIENT://{HOST}:{node.client_port},CONTROLLER://{HOST}:{node.controller_port},"
        f"LINKED://{HOST}:{link.target_port}",
        "advertised.listeners": f"CLIENT://{HOST}:{node.client_port},LINKED://{HOST}:{link.port}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,LINKED:PLAINTEXT",
    }
    with EmbeddedBroker(data_dir=directory, properties=properties) as broker:
        yield RunningKafka(broker.bootstrap_servers, broker)


def test_a_worker_that_is_cut_off_is_replaced_and_comes_back(
    kafka_behind_link: RunningKafka, link: Link, tmp_path: Path
) -> None:
    """What it had not committed is dropped; what it sends late is refused; it gets tasks again once it is back."""
    with application(kafka_behind_link, tmp_path, session_timeout_ms=3_000) as app:
        app.feeder.burst(5_000).start()
        first = app.start()
        second = app.start(bootstrap_servers=f"{HOST}:{link.port}")
        app.until_balanced(first, second)
        app.until_counted()
        lost, rounds_before = second.tasks(), len(second.log("round"))

        link.cut()
        app.until_balanced(first)
        app.until_counted()
        assert len(second.log("round")) == rounds_before, "it cannot know"
        assert set(lost) <= set(first.tasks())

        link.mend()
        app.until(lambda: len(second.log("round")) > rounds_before, "it has joined again")
        app.until_balanced(first, second)
        app.until_counted()
        app.finish()
