"""End-to-end latency at a steady rate: from the producer's timestamp to the arrival at a read-committed consumer.

Every update is forwarded at once (`cache.max.bytes=0`), and an update carries the timestamp of the record that caused it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.feed import start_feed
from benchmarks.job import Guarantee
from benchmarks.kafka import running_kafka
from benchmarks.processes import BenchmarkFailed, GuardedProcess, Instance
from benchmarks.report import Report, spread
from kstreams_worker.io.consumer import RecordConsumer
from kstreams_worker.testing.broker import RunningKafka

PARTITIONS = 4
READY_TIMEOUT_S = 60.0
POLL_S = 0.1
RATE_TOLERANCE = 0.02
RECORDS_MIN = 1000


@dataclass(frozen=True, slots=True)
class LatencyOptions:
    """How much is measured."""

    rate_per_s: int
    keys: int
    repetitions: int
    warm_up_s: float
    measured_s: float
    commit_intervals_ms: Sequence[int]
    """Of exactly once: what is written becomes visible with the commit."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is measured; no guarantee: the input itself, read by the same consumer, as the floor."""

    name: str
    guarantee: Guarantee | None
    commit_interval_ms: int = 500


@dataclass(frozen=True, slots=True)
class Latencies:
    """One run, in milliseconds, and the rate at which records really arrived."""

    p50: float
    p99: float
    longest: float
    records_per_s: float


def latency(report: Report, options: LatencyOptions, servers: str | None) -> None:
    """Measure all settings, in turns."""
    settings = [
        Setting("the input itself", None),
        Setting("at least once", "at_least_once"),
        *(Setting(f"exactly once, commits every {ms} ms", "exactly_once_v2", ms) for ms in options.commit_intervals_ms),
    ]
    results: dict[str, list[Latencies]] = {setting.name: [] for setting in settings}
    with running_kafka(servers) as kafka:
        for repetition in range(1, options.repetitions + 1):
            for setting in settings:
                found = _run(kafka, setting, options)
                results[setting.name].append(found)
                report.say(f"{setting.name}: p50 {found.p50:.1f} ms, p99 {found.p99:.1f} ms")
                if abs(found.records_per_s / options.rate_per_s - 1) > RATE_TOLERANCE:
                    report.warn(
                        f"{found.records_per_s:,.0f} records/s arrived, not {options.rate_per_s:,}: too slow or busy"
                    )
                report.record(
                    "latency",
                    setting=setting.name,
                    guarantee=setting.guarantee,
                    commit_interval_ms=setting.commit_interval_ms,
                    repetition=repetition,
                    rate_per_s=options.rate_per_s,
                    arrived_per_s=round(found.records_per_s),
                    p50_ms=round(found.p50, 2),
                    p99_ms=round(found.p99, 2),
                    max_ms=round(found.longest, 2),
                )
    rows = [
        (
            name,
            spread([run.p50 for run in runs], ".1f"),
            spread([run.p99 for run in runs], ".1f"),
            spread([run.longest for run in runs], ".0f"),
            spread([run.records_per_s for run in runs]),
        )
        for name, runs in results.items()
    ]
    columns = ("", "p50 ms", "p99 ms", "longest ms", "records/s arrived")
    caption = "From the producer's timestamp to the arrival at a read-committed consumer; medians of the runs."
    report.table(f"latency at {options.rate_per_s:,} records/s, cache.max.bytes=0", columns, rows, caption)


def _run(kafka: RunningKafka, setting: Setting, options: LatencyOptions) -> Latencies:
    group = kafka.unique_name("latency")
    source = kafka.create_topic(f"{group}-in", PARTITIONS)
    sink = kafka.create_topic(f"{group}-out", PARTITIONS)
    with ExitStack() as closing:
        directory = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="kstreams-bench-")))
        processes: list[GuardedProcess] = []
        if setting.guarantee is not None:
            instance = _instance(kafka, setting, group, directory)
            processes.append(instance)
            closing.callback(instance.end)
            _wait_until_running(instance)
        feeder = start_feed(kafka.bootstrap_servers, source, options.rate_per_s, options.keys, directory)
        processes.append(feeder)
        closing.callback(feeder.end)
        measured = closing.enter_context(_reader(kafka, sink if setting.guarantee else source))
        found = _latencies(measured, options)
        for process in processes:
            process.check()
    return found


def _instance(kafka: RunningKafka, setting: Setting, group: str, directory: Path) -> Instance:
    return Instance(
        "instance",
        directory / "instance",
        {"BENCH_SOURCE": f"{group}-in", "BENCH_SINK": f"{group}-out"},
        {
            "application.id": group,
            "bootstrap.servers": kafka.bootstrap_servers,
            "processing.guarantee": setting.guarantee,
            "commit.interval.ms": setting.commit_interval_ms,
            "cache.max.bytes": 0,
        },
    )


def _wait_until_running(instance: Instance) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while [task["state"] for task in instance.tasks()].count("running") < PARTITIONS:
        instance.check()
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"the instance does not run all tasks:\n{instance.log_tail()}")
        time.sleep(POLL_S)


@contextmanager
def _reader(kafka: RunningKafka, topic: str) -> Iterator[RecordConsumer]:
    reader = RecordConsumer(
        {"bootstrap.servers": kafka.bootstrap_servers},
        group_id="benchmark-latency",
        client_id="benchmark-latency",
        read_committed=True,
    )
    reader.assign({(topic, partition): 0 for partition in range(PARTITIONS)})
    try:
        yield reader
    finally:
        reader.close()


def _latencies(reader: RecordConsumer, options: LatencyOptions) -> Latencies:
    _wait_for_records(reader)
    began = time.monotonic() + options.warm_up_s
    found: array[float] = array("d")
    while (now := time.monotonic()) < began + options.measured_s:
        fetched = reader.fetch(10_000, POLL_S)
        arrived_ms = time.time() * 1000
        if now >= began:
            for batch in fetched.batches:
                found.extend(arrived_ms - timestamp_ms for timestamp_ms in batch.timestamps_ms)
    if len(found) < RECORDS_MIN:
        raise BenchmarkFailed(f"only {len(found)} records have arrived in {options.measured_s:g} s")
    percentiles = statistics.quantiles(found, n=100)
    return Latencies(percentiles[49], percentiles[98], max(found), len(found) / (now - began))


def _wait_for_records(reader: RecordConsumer) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not reader.fetch(10_000, POLL_S).batches:
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"nothing has arrived within {READY_TIMEOUT_S:g} s")
