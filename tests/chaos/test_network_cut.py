"""A worker that is cut off from the network past its session timeout, while the others go on, and that comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.application import application
from harness.proxy import Link, kafka_behind

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


@pytest.fixture
def link() -> Iterator[Link]:
    with Link() as made:
        yield made


@pytest.fixture
def kafka_behind_link(link: Link, tmp_path: Path) -> Iterator[RunningKafka]:
    with kafka_behind(link, tmp_path / "kafka") as running:
        yield running


def test_a_worker_that_is_cut_off_is_replaced_and_comes_back(
    kafka_behind_link: RunningKafka, link: Link, tmp_path: Path
) -> None:
    """What it had not committed is dropped; what it sends late is refused; it gets tasks again once it is back."""
    with application(kafka_behind_link, tmp_path, session_timeout_ms=3_000) as app:
        app.feeder.burst(5_000).start()
        first = app.start()
        second = app.start(bootstrap_servers=link.servers)
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
