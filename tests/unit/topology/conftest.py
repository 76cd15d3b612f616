"""What tests of single steps share: one input, one output, and the records between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kstreams_worker import StreamsBuilder
from kstreams_worker.testing.driver import TestRecord, TopologyTestDriver

Record = tuple[Any, Any] | tuple[Any, Any, int]
Build = Callable[[StreamsBuilder], None]
Run = Callable[..., list[TestRecord]]


@pytest.fixture(params=["one by one", "as a batch"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs records through a topology that reads "in" and writes "out"; updates are forwarded at once."""

    def run_records(build: Build, records: Iterable[Record]) -> list[TestRecord]:
        builder = StreamsBuilder()
        build(builder)
        with TopologyTestDriver(builder.build()) as driver:
            source = driver.input_topic("in")
            if request.param == "as a batch":
                source.pipe_batch(records)
            else:
                for record in records:
                    source.pipe_batch([record])
            return driver.output_topic("out").read_all()

    return run_records


@pytest.fixture
def pairs(run: Run) -> Callable[[Build, Iterable[Record]], list[tuple[Any, Any]]]:
    """As `run`, giving `(key, value)`."""

    def run_pairs(build: Build, records: Iterable[Record]) -> list[tuple[Any, Any]]:
        return [(record.key, record.value) for record in run(build, records)]

    return run_pairs
