"""The topology that is measured: count per key. Topic names come from the environment, since every run has its own."""

from __future__ import annotations

import os

from kstreams_worker import StreamsBuilder, Topology


def counts() -> Topology:
    """As a user would write it."""
    builder = StreamsBuilder()
    records = builder.stream(os.environ["BENCH_SOURCE"], key=str, value="json")
    records.group_by_key().count(materialized="counts").to_stream().to(os.environ["BENCH_SINK"])
    return builder.build()
