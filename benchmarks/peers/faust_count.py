"""The job in Faust, as its documentation would have it. Runs in the peers' environment; the job is in the environment.

It forwards every update: there is no record cache.
"""

from __future__ import annotations

import os

import faust

JOB = os.environ
GUARANTEE = "exactly_once" if JOB["BENCH_GUARANTEE"] == "exactly_once_v2" else "at_least_once"

app = faust.App(
    JOB["BENCH_GROUP"],
    broker=f"kafka://{JOB['BENCH_SERVERS']}",
    store="rocksdb://?driver=rocksdict",
    datadir=JOB["BENCH_DIRECTORY"],
    topic_partitions=int(JOB["BENCH_PARTITIONS"]),
    processing_guarantee=GUARANTEE,
    broker_commit_interval=int(JOB["BENCH_COMMIT_INTERVAL_MS"]) / 1000,
    consumer_auto_offset_reset="earliest",
    producer_compression_type="lz4",
    web_enabled=False,
    key_serializer="raw",
)
source = app.topic(JOB["BENCH_SOURCE"], value_serializer="json")
sink = app.topic(JOB["BENCH_SINK"], value_serializer="json")
counts = app.Table("counts", default=int, key_type=bytes)


@app.agent(source)
async def count(orders):
    """The number of records of each key."""
    async for event in orders.events():
        counts[event.key] += 1
        await sink.send(key=event.key, value=counts[event.key])


if __name__ == "__main__":
    app.main()
