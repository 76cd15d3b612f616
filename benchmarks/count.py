"""Stateful count of a topic that is full already: records per second and CPU seconds per million records.

All contestants are measured in the same way, from outside: by the offsets that their group has committed, and by the
processor time of their process and its children. They take turns, so that a machine that grows slower or faster in
the meantime does so for all of them.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.contestants import WORKER, YARDSTICK, Contestant
from benchmarks.job import Guarantee, Job
from benchmarks.kafka import CommittedOffsets, fill, running_kafka, sum_of_newest
from benchmarks.processes import BenchmarkFailed, GuardedProcess
from benchmarks.report import Report, spread
from kstreams_worker.testing.broker import RunningKafka

PARTITIONS = 4
POLL_S = 0.02
START_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Variant:
    """What the job asks for."""

    name: str
    guarantee: Guarantee
    every_update: bool


VARIANTS = (
    Variant("exactly once", "exactly_once_v2", every_update=False),
    Variant("exactly once, every update (cache.max.bytes=0)", "exactly_once_v2", every_update=True),
    Variant("at least once", "at_least_once", every_update=False),
)


@dataclass(frozen=True, slots=True)
class CountOptions:
    """How much is measured."""

    records: int
    keys: int
    repetitions: int
    commit_interval_ms: int
    time_limit_s: float
    """From a run's first commit. A contestant that has not finished then is rated by what it has done."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A commit as it was seen: seconds of `time.monotonic`, records committed so far, CPU seconds so far."""

    moment: float
    records: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Result:
    """One run."""

    records_per_s: float
    cpu_s_per_million: float
    complete: bool


def count(
    report: Report, options: CountOptions, variants: Sequence[Variant], peers: Sequence[Contestant], servers: str | None
) -> None:
    """Measure all contestants in all variants."""
    for variant in variants:
        with running_kafka(servers) as kafka:
            _measure_variant(report, options, variant, (YARDSTICK, WORKER, *peers), kafka)


def _measure_variant(
    report: Report, options: CountOptions, variant: Variant, contestants: Sequence[Contestant], kafka: RunningKafka
) -> None:
    source = kafka.create_topic(kafka.unique_name("orders"), PARTITIONS)
    report.say(f"{variant.name}: writing {options.records:,} records of {options.keys:,} keys")
    fill(kafka.bootstrap_servers, source, options.records, options.keys)
    results: dict[str, list[Result]] = {}
    # The first turn of each is not counted: the broker's compiler is still at work.
    for repetition, contestant in itertools.product(range(options.repetitions + 1), contestants):
        with tempfile.TemporaryDirectory(prefix="kstreams-bench-") as directory:
            job = _job(kafka, source, variant, options, Path(directory))
            if not contestant.can(job):
                continue
            result = _run(contestant, job, options, Path(directory))
        counted = repetition > 0
        report.say(
            f"{contestant.name}: {result.records_per_s:,.0f} records/s, "
            f"{result.cpu_s_per_million:.2f} CPU s per million records"
            + ("" if result.complete else ", not finished")
            + ("" if counted else " (to warm up, not counted)")
        )
        if counted:
            results.setdefault(contestant.name, []).append(result)
            report.record(
                "count",
                variant=variant.name,
                contestant=contestant.name,
                repetition=repetition,
                records=options.records,
                keys=options.keys,
                records_per_s=round(result.records_per_s),
                cpu_s_per_million=round(result.cpu_s_per_million, 3),
                complete=result.complete,
            )
    _show(report, variant, results)


def _show(report: Report, variant: Variant, results: dict[str, list[Result]]) -> None:
    yardstick = [result.records_per_s for result in results[YARDSTICK.name]]
    rows = []
    for name, runs in results.items():
        rates = [run.records_per_s for run in runs]
        ratios = [own / other for own, other in zip(rates, yardstick, strict=True)]
        cpu_s = [run.cpu_s_per_million for run in runs]
        rows.append((name, spread(rates), spread(cpu_s, ".2f"), spread(ratios, ".2f")))
        report.record(
            "count summary",
            variant=variant.name,
            contestant=name,
            records_per_s=round(statistics.median(rates)),
            cpu_s_per_million=round(statistics.median(cpu_s), 3),
            ratio=round(statistics.median(ratios), 3),
            ratios=[round(ratio, 3) for ratio in ratios],
        )
    columns = ("", "records/s", "CPU s per million records", f"ratio to the {YARDSTICK.name}")
    report.table(f"count, {variant.name}", columns, rows, "Medians, and from where to where. Ratios turn by turn.")


def _job(kafka: RunningKafka, source: str, variant: Variant, options: CountOptions, directory: Path) -> Job:
    group = kafka.unique_name("count")
    return Job(
        servers=kafka.bootstrap_servers,
        group=group,
        source=source,
        sink=kafka.create_topic(f"{group}-out", PARTITIONS),
        changelog=kafka.create_topic(f"{group}-changelog", PARTITIONS),
        partitions=PARTITIONS,
        directory=directory / "state",
        guarantee=variant.guarantee,
        every_update=variant.every_update,
        commit_interval_ms=options.commit_interval_ms,
    )


def _run(contestant: Contestant, job: Job, options: CountOptions, directory: Path) -> Result:
    job.directory.mkdir()
    process = GuardedProcess(contestant.name, contestant.command(job), directory / "log", job.environment())
    try:
        samples = list(_commits(process, job, options))
    finally:
        process.end()
    if len(samples) < 2:
        raise BenchmarkFailed(
            f"{contestant.name} committed {len(samples)} time(s), too few to tell a rate:\n{process.log_tail()}"
        )
    complete = samples[-1].records >= options.records
    if complete and (counted := sum_of_newest(job.servers, job.sink, job.partitions)) != options.records:
        raise BenchmarkFailed(f"{contestant.name} counted {counted:,} of {options.records:,} records")
    return _rate(samples, complete)


def _commits(process: GuardedProcess, job: Job, options: CountOptions) -> Iterator[Sample]:
    """One sample for each commit that is seen, until the end of the input or the time limit."""
    deadline = time.monotonic() + START_TIMEOUT_S
    offsets = CommittedOffsets(job.servers, job.group, job.source, job.partitions)
    members: list[psutil.Process] = []
    records = 0
    try:
        while records < options.records and time.monotonic() < deadline:
            found, moment = offsets.total(), time.monotonic()
            if found > records:
                if not members:
                    members = process.descendants()
                    deadline = moment + options.time_limit_s
                records = found
                yield Sample(moment, records, sum(map(_cpu_s, members)))
            process.check()
            time.sleep(POLL_S)
    finally:
        offsets.close()


def _rate(samples: Sequence[Sample], complete: bool) -> Result:
    """From the first commit seen to the last; of many, to the last but one, since the last waits with nothing to read."""
    first, last = samples[0], samples[-2 if complete and len(samples) > 3 else -1]
    records = last.records - first.records
    return Result(records / (last.moment - first.moment), (last.cpu_s - first.cpu_s) / records * 1_000_000, complete)


def _cpu_s(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return times.user + times.system
    return 0.0
