"""Topologies of the tests. Topic names come from the environment, since every test has its own."""

import os
import time
from pathlib import Path
from typing import Any

from kstreams_worker import StreamsBuilder
from kstreams_worker.topology.topology import Topology


def counts() -> Topology:
    """The number of records of each key."""
    builder = StreamsBuilder()
    counted = (
        builder.stream(os.environ["INPUT_TOPIC"], key=bytes, value="json").group_by_key().count(materialized="counts")
    )
    counted.to_stream().to(os.environ["OUTPUT_TOPIC"], value="json")
    return builder.build()


def regrouped_counts() -> Topology:
    """As `counts`, by way of a repartition topic."""
    builder = StreamsBuilder()
    records = builder.stream(os.environ["INPUT_TOPIC"], key=bytes, value="json")
    counted = records.group_by(lambda key, value: key, key=bytes, name="again").count(materialized="counts")
    counted.to_stream().to(os.environ["OUTPUT_TOPIC"], value="json")
    return builder.build()


def other_counts() -> Topology:
    """Not the topology above, though it reads and writes the same topics."""
    builder = StreamsBuilder()
    records = builder.stream(os.environ["INPUT_TOPIC"], key=bytes, value="json")
    counted = records.filter(lambda key, value: True).group_by_key().count(materialized="other-counts")
    counted.to_stream().to(os.environ["OUTPUT_TOPIC"], value="json")
    return builder.build()


def _is_there(key: bytes, value: Any) -> bool:
    """A step of the user's that takes as long as the test likes: while the file exists that the environment names.

    Once it waits, there is a second file, `<name>.reached`.
    """
    blocked_by = os.environ.get("BLOCKED_BY")
    while blocked_by is not None and Path(blocked_by).exists():
        Path(f"{blocked_by}.reached").touch()
        time.sleep(0.02)
    return value is not None


def counts_with_a_slow_step() -> Topology:
    """As `counts`, with a step that may block."""
    builder = StreamsBuilder()
    records = builder.stream(os.environ["INPUT_TOPIC"], key=bytes, value="json").filter(_is_there)
    counted = records.group_by_key().count(materialized="counts")
    counted.to_stream().to(os.environ["OUTPUT_TOPIC"], value="json")
    return builder.build()


def _after_a_millisecond(key: bytes, value: Any) -> bool:
    time.sleep(0.001)
    return True


def slow_counts() -> Topology:
    """As `counts`, with a step that takes a millisecond for each record."""
    builder = StreamsBuilder()
    records = builder.stream(os.environ["INPUT_TOPIC"], key=bytes, value="json").filter(_after_a_millisecond)
    counted = records.group_by_key().count(materialized="counts")
    counted.to_stream().to(os.environ["OUTPUT_TOPIC"], value="json")
    return builder.build()


def fixed() -> Topology:
    """One that needs nothing around it, for instances that never get to run it."""
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    return builder.build()
