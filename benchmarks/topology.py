"""The topologies that are measured. Topic names come from the environment, since every run has its own."""

from __future__ import annotations

import os

from kstreams_worker import StreamsBuilder, Topology

STATE_BYTES = 200


def counts() -> Topology:
    """Count per key, as a user would write it."""
    builder = StreamsBuilder()
    records = builder.stream(os.environ["BENCH_SOURCE"], key=str, value="json")
    records.group_by_key().count(materialized="counts").to_stream().to(os.environ["BENCH_SINK"])
    return builder.build()


def states() -> Topology:
    """A state of `STATE_BYTES` for each key: a count, and room for more."""

    def count(_key: bytes, _value: bytes, state: bytes) -> bytes:
        return (int.from_bytes(state[:8], "big") + 1).to_bytes(8, "big") + state[8:]

    builder = StreamsBuilder()
    records = builder.stream(os.environ["BENCH_SOURCE"], key=bytes, value=bytes)
    table = records.group_by_key().aggregate(lambda: bytes(STATE_BYTES), count, value=bytes, materialized="states")
    table.to_stream().to(os.environ["BENCH_SINK"])
    return builder.build()
