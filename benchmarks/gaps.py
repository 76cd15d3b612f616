"""Processing gaps: how long an output partition is silent when an instance joins, leaves, is killed, or loses a worker.

The input is steady, and each task writes to the output partition of its own number. A gap is the time between two
moments at which records of one partition became visible to a read-committed consumer. It cannot be shorter than the
commit interval; what it is without any disturbance is measured in the same run.
"""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.feed import start_feed
from benchmarks.job import Guarantee
from benchmarks.kafka import fill, running_kafka
from benchmarks.processes import BenchmarkFailed, GuardedProcess, Instance, TaskRunner
from benchmarks.report import Report, spread
from benchmarks.topology import STATE_BYTES
from kstreams_worker.io.admin import Admin
from kstreams_worker.io.consumer import RecordConsumer
from kstreams_worker.testing.broker import RunningKafka

PARTITIONS = 4
STEP_TIMEOUT_S = 300.0
"""Kafka Streams looks once a minute whether a copy has caught up."""
SETTLED_S = 2.5
"""A status may be a second old, so only what several in a row agree on has settled."""
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class GapOptions:
    """How much is measured."""

    rate_per_s: int
    keys: int
    history: int
    """Records that are counted before: the state that a new owner has to learn."""
    repetitions: int
    undisturbed_s: float
    commit_interval_ms: int
    guarantee: Guarantee
    scenarios: Sequence[Scenario]
    runners: Sequence[Runner]


@dataclass(frozen=True, slots=True)
class GapJob:
    """What an instance is to do."""

    servers: str
    group: str
    source: str
    sink: str
    directory: Path
    guarantee: Guarantee
    commit_interval_ms: int
    standbys: int


@dataclass(frozen=True, slots=True)
class Runner:
    """A program that is measured. `name` is empty for our own; `can` tells which scenarios it can be taken through."""

    name: str
    start: Callable[[str, GapJob], TaskRunner]
    can: Callable[[Scenario], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class Scenario:
    """`disturb` is done to instances that run; it returns the name of the instance that it has hurt, if it has."""

    name: str
    instances: int
    """How many run before."""
    standbys: int
    disturb: Callable[[Scene], str | None]


@dataclass(frozen=True, slots=True)
class Gaps:
    """One run: the longest gap of each partition in seconds, and the partitions whose task was moved or lost its worker."""

    undisturbed: Mapping[int, float]
    disturbed: Mapping[int, float]
    hit: frozenset[int]

    @property
    def longest_hit(self) -> float:
        return max(self.disturbed[partition] for partition in self.hit)

    @property
    def longest_other(self) -> float:
        """Not a number if all were hit."""
        return max((gap for partition, gap in self.disturbed.items() if partition not in self.hit), default=math.nan)


class Scene:
    """Everything that runs in one run, and who has which task."""

    def __init__(
        self, kafka: RunningKafka, options: GapOptions, runner: Runner, standbys: int, directory: Path
    ) -> None:
        self.group = kafka.unique_name("gaps")
        self.instances: list[TaskRunner] = []
        self.started = 0
        self._kafka = kafka
        self._runner = runner
        self._options = options
        self._standbys = standbys
        self._directory = directory
        self.source = kafka.create_topic(f"{self.group}-in", PARTITIONS)
        self.sink = kafka.create_topic(f"{self.group}-out", PARTITIONS)
        fill(kafka.bootstrap_servers, self.source, options.history, options.keys)

    def start_instance(self) -> None:
        """One more. It leaves by handing its tasks over."""
        name = f"instance-{self.started + 1}"
        job = GapJob(
            servers=self._kafka.bootstrap_servers,
            group=self.group,
            source=self.source,
            sink=self.sink,
            directory=self._directory / name,
            guarantee=self._options.guarantee,
            commit_interval_ms=self._options.commit_interval_ms,
            standbys=self._standbys,
        )
        self.started += 1
        self.instances.append(self._runner.start(name, job))

    def take_away(self, instance: TaskRunner) -> None:
        """Wait until an instance has ended, and count on it no more."""
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while not instance.has_ended:
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"{instance.name} has not ended after {STEP_TIMEOUT_S:g} s: {self._describe()}")
            time.sleep(POLL_S)
        self.instances.remove(instance)

    def scale_down(self, instance: TaskRunner) -> None:
        """Have the tool send an instance of ours away, and wait until it has gone."""
        assert isinstance(instance, Instance)
        command = [sys.executable, "-m", "kstreams_worker", "scale-down", "--instances", instance.process_id]
        access = ["--bootstrap-servers", self._kafka.bootstrap_servers, "--application-id", self.group]
        done = subprocess.run([*command, *access], capture_output=True, text=True, timeout=STEP_TIMEOUT_S, check=False)
        if done.returncode:
            raise BenchmarkFailed(f"scale-down ended with code {done.returncode}: {done.stderr}")

    def end(self) -> None:
        """End all instances."""
        for instance in self.instances:
            instance.end()

    def start_feed(self) -> GuardedProcess:
        options = self._options
        return start_feed(self._kafka.bootstrap_servers, self.source, options.rate_per_s, options.keys, self._directory)

    def owners(self) -> dict[int, str] | None:
        """Which instance processes which partition, as soon as all is as it should be; None before that."""
        owners: dict[int, str] = {}
        standbys = 0
        for instance in self.instances:
            instance.check()
            own = 0
            for task in instance.tasks():
                partition = int(task["task"].partition("_")[2])
                match task["role"], task["state"]:
                    case "active", "running":
                        if partition in owners or task["lag_records"] > self._options.rate_per_s:
                            return None
                        owners[partition] = instance.name
                        own += 1
                    case "standby", "ready":
                        standbys += 1
                    case _:
                        return None
            if own != PARTITIONS // len(self.instances):
                return None
        expected_standbys = self._standbys * PARTITIONS if len(self.instances) > 1 else 0
        return owners if len(owners) == PARTITIONS and standbys == expected_standbys else None

    def settle(self) -> dict[int, str]:
        """Wait until every task is processed, evenly shared, with its standbys, for a while; returns the owners."""
        deadline, since = time.monotonic() + STEP_TIMEOUT_S, None
        while True:
            owners, now = self.owners(), time.monotonic()
            since = (since or now) if owners else None
            if owners and since is not None and now - since >= SETTLED_S:
                return owners
            if now > deadline:
                raise BenchmarkFailed(f"the tasks are not settled after {STEP_TIMEOUT_S:g} s: " + self._describe())
            time.sleep(POLL_S)

    def _describe(self) -> str:
        return "; ".join(
            f"{instance.name}: "
            + " ".join(f"{task['task']}:{task['role']}:{task['state']}" for task in instance.tasks())
            for instance in self.instances
        )


class Watcher(threading.Thread):
    """Notes when records of each output partition become visible, in seconds of `time.monotonic`."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(name="watcher", daemon=True)
        self._reader = RecordConsumer(
            {"bootstrap.servers": servers},
            group_id="benchmark-gaps",
            client_id="benchmark-gaps",
            read_committed=True,
        )
        # From the end: reading what is there already, one partition after the other, would look like gaps.
        admin = Admin({"bootstrap.servers": servers}, client_id="benchmark-gaps-ends", timeout_s=STEP_TIMEOUT_S)
        partitions = [(topic, partition) for partition in range(PARTITIONS)]
        self._reader.assign(admin.end_offsets(partitions, committed=True))
        self._moments: dict[int, list[float]] = {partition: [] for partition in range(PARTITIONS)}
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.is_set():
            fetched = self._reader.fetch(10_000, POLL_S)
            now = time.monotonic()
            for partition in {batch.partition for batch in fetched.batches}:
                self._moments[partition].append(now)
        self._reader.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def longest(self, since: float, until: float) -> dict[int, float]:
        """Of each partition, the longest gap that ended between these moments."""
        return {
            partition: max((end - start for start, end in pairwise(list(moments)) if since < end <= until), default=0.0)
            for partition, moments in self._moments.items()
        }


def scale_up(scene: Scene) -> None:
    scene.start_instance()


def _scale_down(scene: Scene) -> None:
    leaving = scene.instances[-1]
    scene.scale_down(leaving)
    scene.take_away(leaving)


def hand_over(scene: Scene) -> None:
    leaving = scene.instances[-1]
    leaving.ask_to_end()
    scene.take_away(leaving)


def lose_a_host(scene: Scene) -> str:
    victim = scene.instances[-1]
    victim.kill()
    scene.take_away(victim)
    return victim.name


def _kill_a_worker(scene: Scene) -> str:
    victim = scene.instances[-1]
    assert isinstance(victim, Instance)
    victim.kill_worker()
    return victim.name


SCENARIOS = (
    Scenario("scale-up", 1, 0, scale_up),
    Scenario("scale-down by the tool", 2, 0, _scale_down),
    Scenario("SIGTERM, handover", 2, 0, hand_over),
    Scenario("kill -9 of a worker, with standby", 2, 1, _kill_a_worker),
    Scenario("kill -9 of a worker, no standby", 2, 0, _kill_a_worker),
    Scenario("host loss, with standby", 2, 1, lose_a_host),
)


def start_worker(name: str, job: GapJob) -> TaskRunner:
    """An instance of ours."""
    return Instance(
        name,
        job.directory,
        {"BENCH_SOURCE": job.source, "BENCH_SINK": job.sink},
        {
            "application.id": job.group,
            "bootstrap.servers": job.servers,
            "processing.guarantee": job.guarantee,
            "commit.interval.ms": job.commit_interval_ms,
            "num.standby.tasks": job.standbys,
            "on.sigterm": "handover",
        },
        "states",
    )


OURS = Runner("", start_worker)


def gaps(report: Report, options: GapOptions, servers: str | None) -> None:
    """Measure all scenarios, in turns."""
    turns = [
        (runner, scenario, f"{scenario.name}{runner.name and f', {runner.name}'}")
        for scenario, runner in itertools.product(options.scenarios, options.runners)
        if runner.can(scenario)
    ]
    results: dict[str, list[Gaps]] = {name: [] for _, _, name in turns}
    with running_kafka(servers) as kafka:
        # A run that is not counted: for its first minute the broker's compiler takes a good part of a core.
        report.say(f"to warm up: {turns[0][2]}")
        _run(kafka, *turns[0][:2], options)
        for repetition in range(1, options.repetitions + 1):
            for runner, scenario, name in turns:
                found = _run(kafka, runner, scenario, options)
                results[name].append(found)
                report.say(
                    f"{name}: {found.longest_hit:.2f} s, "
                    f"other partitions {found.longest_other:.2f} s, undisturbed {max(found.undisturbed.values()):.2f} s"
                )
                report.record(
                    "gaps",
                    scenario=name,
                    guarantee=options.guarantee,
                    commit_interval_ms=options.commit_interval_ms,
                    repetition=repetition,
                    hit_s=_rounded(found.disturbed, found.hit),
                    other_s=_rounded(found.disturbed, found.disturbed.keys() - found.hit),
                    undisturbed_s=_rounded(found.undisturbed, found.undisturbed),
                )
    rows = [
        (
            name,
            spread([run.longest_hit for run in runs], ".2f"),
            spread([run.longest_other for run in runs], ".2f"),
            spread([max(run.undisturbed.values()) for run in runs], ".2f"),
        )
        for name, runs in results.items()
    ]
    columns = ("seconds of silence", "tasks moved or lost", "other tasks", "all, undisturbed")
    caption = (
        f"Longest gap of a run at {options.rate_per_s:,} records/s, {options.keys:,} keys of {STATE_BYTES} bytes; medians. "
        f"{options.guarantee}, commits every {options.commit_interval_ms} ms."
    )
    report.table("gaps at the output", columns, rows, caption)


def _rounded(found: Mapping[int, float], partitions: Iterable[int]) -> list[float]:
    return [round(found[partition], 3) for partition in sorted(partitions)]


def _run(kafka: RunningKafka, runner: Runner, scenario: Scenario, options: GapOptions) -> Gaps:
    with ExitStack() as closing:
        directory = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="kstreams-bench-")))
        scene = Scene(kafka, options, runner, scenario.standbys, directory)
        closing.callback(scene.end)
        for _ in range(scenario.instances):
            scene.start_instance()
        feeder = scene.start_feed()
        closing.callback(feeder.end)
        before = scene.settle()
        watcher = Watcher(kafka.bootstrap_servers, scene.sink)
        watcher.start()
        closing.callback(watcher.stop)
        scene.settle()
        started = time.monotonic()
        time.sleep(options.undisturbed_s)
        disturbed = time.monotonic()
        victim = scenario.disturb(scene)
        after = scene.settle()
        ended = time.monotonic()
        feeder.check()
        lost = {partition for partition, owner in before.items() if owner == victim}
        moved = {partition for partition, owner in before.items() if owner != after[partition]}
        hit = frozenset(lost or moved)  # what moves back after a kill counts by what the kill did to it
        return Gaps(watcher.longest(started, disturbed), watcher.longest(disturbed, ended), hit)
