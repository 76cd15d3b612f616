"""An application under test: its topics, its instances, its input and its output, and the end of them all."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from harness.feeder import Feeder
from harness.history import Check, History, TopicReader, check_at_least_once, check_exactly_once
from harness.instances import Instance, run_command
from harness.waiting import until
from kstreams_worker.control.board import ControlBoard
from kstreams_worker.testing.broker import RunningKafka
from state.locks import FileLock

PARTITIONS = 4
ALL_TASKS = [f"0_{partition}" for partition in range(PARTITIONS)]

LONG_SESSION_MS = 300_000
"""So long that nothing which waits for it would pass a test's deadline."""


class Application:
    """Instances of one topology, with an input and an output topic of their own on a broker shared with other tests."""

    def __init__(
        self,
        kafka: RunningKafka,
        directory: Path,
        settings: Mapping[str, object] | None = None,
        *,
        partitions: int = PARTITIONS,
    ) -> None:
        self.kafka = kafka
        self.directory = directory
        self.id = kafka.unique_name("app")
        self.input_topic = f"{self.id}-in"
        self.output_topic = f"{self.id}-out"
        self.settings = {
            "application.id": self.id,
            "bootstrap.servers": kafka.bootstrap_servers,
            "session.timeout.ms": LONG_SESSION_MS,
            **(settings or {}),
        }
        self.instances: list[Instance] = []
        self.feeder = Feeder(kafka.bootstrap_servers, self.input_topic)
        self.partitions = partitions
        self.history = History(kafka.bootstrap_servers, self.output_topic, partitions)
        self._names = (f"instance-{number}" for number in itertools.count(1))

    def create_topics(self) -> None:
        """Create the input and the output topic."""
        for topic in (self.input_topic, self.output_topic):
            self.kafka.create_topic(topic, self.partitions)

    def start(
        self,
        topology: str = "harness.topologies:counts",
        *,
        environment: Mapping[str, str] | None = None,
        **settings: object,
    ) -> Instance:
        """Start one more instance. `settings` have `_` for `.`; `environment` is for its topology."""
        own = {name.replace("_", "."): value for name, value in settings.items()}
        instance = Instance(
            next(self._names),
            topology,
            {**self.settings, **own},
            self.directory,
            environment={
                "INPUT_TOPIC": self.input_topic,
                "OUTPUT_TOPIC": self.output_topic,
                **(environment or {}),
            },
        )
        self.instances.append(instance)
        return instance.start()

    def command(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of the product's commands on this application, to its end."""
        where = ("--application-id", self.id, "--bootstrap-servers", self.kafka.bootstrap_servers)
        return run_command(command, *where, *arguments)

    def scale_down(self, *instances: Instance, options: tuple[str, ...] = ()) -> str:
        """Order these instances to leave; returns what the tool prints, once they are gone (or `--no-wait`)."""
        names = ",".join(instance.process_id for instance in instances)
        done = self.command("scale-down", "--instances", names, *options)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.describe()}"
        return done.stdout

    @contextlib.contextmanager
    def held_state(self, *instances: Instance, tasks: list[str] = ALL_TASKS) -> Iterator[None]:
        """No worker of these instances can open the state of these tasks meanwhile, so what learns them is never ready.

        Nobody may have it open when this begins.
        """
        with contextlib.ExitStack() as held:
            for instance in instances:
                for task in tasks:
                    lock = FileLock(instance.state_dir / self.id / "locks" / f"{task}.lock")
                    lock.acquire(f"task {task} of {instance.name}")
                    held.callback(lock.release)
            yield

    def until_balanced(self, *instances: Instance, tasks: list[str] = ALL_TASKS) -> None:
        """Wait until these instances run all tasks, each once and evenly."""

        def balanced() -> bool:
            shares = [instance.tasks() for instance in instances]
            sizes = [len(share) for share in shares]
            return sorted(itertools.chain(*shares)) == tasks and max(sizes) - min(sizes) <= 1

        self.until(balanced, f"{', '.join(instance.name for instance in instances)} share all tasks evenly")

    def until_counted(self, more: int = 500) -> None:
        """Wait until so many more records have come out than now, of whatever key."""
        target = self.history.read() + more
        self.until(lambda: self.history.read() >= target, f"{more} more outputs")

    def until_complete(self) -> dict[bytes, int]:
        """End the steady input and wait until all of it is counted; returns the right counts."""
        expected = self.feeder.stop()
        assert expected, "there was no input"
        until(
            lambda: self.history.reaches(expected),
            "all input is counted",
            explain=lambda: f"{self.history.behind(expected)}\n{self.describe()}",
        )
        return expected

    def until_counted_in(self, partition: int, total: int) -> None:
        """Wait until so many records have come out in this partition, all told."""
        self.until(
            lambda: self.history.read() and self.history.records_of_partition[partition] >= total,
            f"{total} outputs in partition {partition}",
        )

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition; a failure shows all instances."""
        until(condition, what, explain=self.describe)

    def finish(self, check: Check = check_exactly_once) -> None:
        """End the input, wait until all of it is counted, close all instances, and check the whole output."""
        expected = self.until_complete()
        running = [instance for instance in self.instances if instance.is_running]
        for instance in running:
            instance.terminate()
        for instance in running:
            assert instance.wait() == 0, instance.describe()
        self.history.read_to_end()
        try:
            check(self.history.values, expected)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._input_against(expected)}\n{self.describe()}") from error
        if check is not check_at_least_once:
            self.history.check_timestamps(self.feeder.timestamps_ms)
        for instance in self.instances:
            instance.assert_no_traceback()

    def _input_against(self, expected: Mapping[bytes, int]) -> str:
        """Whether the input topic itself holds what was written to it, for the message of a check that failed."""
        reader = TopicReader(self.kafka.bootstrap_servers, self.input_topic, self.partitions)
        try:
            found = Counter(message.key() for message in reader.read_to_end())
        finally:
            reader.close()
        wrong = {key: count for key, count in found.items() if count != expected[key]}
        return f"the input topic holds {found.total()} records of {sum(expected.values())}; wrong for {len(wrong)} keys"

    def describe(self) -> str:
        """All instances, for a message."""
        return "\n".join(instance.describe() for instance in self.instances)

    def control_topic(self) -> ControlBoard:
        """What the control topic says now."""
        topic = f"{self.id}-control"
        reader = TopicReader(self.kafka.bootstrap_servers, topic, 1)
        board = ControlBoard(topic)
        try:
            for message in reader.read_to(reader.ends(committed=False)):
                board.take(message.key(), message.value())
        finally:
            reader.close()
        return board

    def kill(self) -> None:
        """End whatever is left."""
        for instance in self.instances:
            instance.kill()
        self.feeder.abandon()
        self.history.close()


@contextlib.contextmanager
def application(
    kafka: RunningKafka,
    directory: Path,
    *,
    create_topics: bool = True,
    partitions: int = PARTITIONS,
    **settings: object,
) -> Iterator[Application]:
    """An application for the length of a `with` block; no process of it is left behind. `settings` have `_` for `.`."""
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    made = Application(kafka, directory, dotted, partitions=partitions)
    try:
        if create_topics:
            made.create_topics()
        yield made
    finally:
        made.kill()
