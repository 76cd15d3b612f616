"""The job in Quix Streams, as its documentation would have it. Runs in the peers' environment; the job is in the environment.

It forwards every update: there is no record cache.
"""

from __future__ import annotations

import os
from typing import Any

from quixstreams import Application

JOB = os.environ


def count(_value: Any, state: Any) -> int:
    """The number of records of this key."""
    number = int(state.get("count", 0)) + 1
    state.set("count", number)
    return number


def main() -> None:
    """Count until told to stop."""
    app = Application(
        broker_address=JOB["BENCH_SERVERS"],
        consumer_group=JOB["BENCH_GROUP"],
        auto_offset_reset="earliest",
        commit_interval=int(JOB["BENCH_COMMIT_INTERVAL_MS"]) / 1000,
        processing_guarantee="exactly-once" if JOB["BENCH_GUARANTEE"] == "exactly_once_v2" else "at-least-once",
        state_dir=JOB["BENCH_DIRECTORY"],
        producer_extra_config={"compression.type": "lz4", "partitioner": "murmur2_random"},
    )
    source = app.topic(JOB["BENCH_SOURCE"], value_deserializer="json")
    sink = app.topic(JOB["BENCH_SINK"], value_serializer="json")
    app.dataframe(source).apply(count, stateful=True).to_topic(sink)
    app.run()


if __name__ == "__main__":
    main()
