"""What happens, in order. Each step waits for a condition, with a time limit, and says what it sees meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from assignor.model import TaskId
from examples.demo.cast import Look, look, names
from examples.demo.failure import DemoFailed
from examples.demo.feed import Feed
from examples.demo.instance import Instance, end_all
from examples.demo.phases import Phase, summary
from examples.demo.settings import APPLICATION_ID, INPUTS, OUTPUTS, PARTITIONS, TASKS, DemoSettings
from examples.demo.timeline import Timeline
from examples.demo.watcher import Watcher
from kstreams_worker.devbroker.embedded import EmbeddedBroker
from kstreams_worker.io.admin import Admin, TopicSpec
from kstreams_worker.pipeline.access import KafkaAccess
from kstreams_worker.pipeline.caught_up import Backlog
from kstreams_worker.pipeline.report import Report

POLL_S = 0.2
SETTLED_S = 2.5
"""A status may be a second old, so only what several in a row agree on has settled."""
SPARK_TIMEOUT_S = 60.0
STEP_TIMEOUT_S = 90.0
STANDSTILL_S = 5.0
CLOSE_TIMEOUT_S = 30.0


class Play:
    """Used in a `with` block, at whose end nothing runs any more."""

    def __init__(self, settings: DemoSettings, timeline: Timeline) -> None:
        self.instances: list[Instance] = []
        """All that were started, also those that have ended."""
        self._settings = settings
        self._timeline = timeline
        self._closing = ExitStack()
        self._feed = Feed(settings)
        self._phases: list[Phase] = []
        self._owners: dict[TaskId, str] = {}
        self._learned: dict[tuple[TaskId, str], int] = {}

    def __enter__(self) -> Play:
        return self

    def __exit__(self, *_: object) -> None:
        for instance in self.instances:
            instance.destroy()
        self._closing.close()
        self._timeline.close()

    def perform(self) -> Report:
        """All of it; returns what the verification found. Raises DemoFailed, KStreamsError."""
        self._raise_the_curtain()
        self._first_two_instances()
        self._undisturbed()
        self._a_third_joins()
        self._a_worker_is_killed()
        self._an_instance_is_closed()
        self._drain()
        return self._verify()

    # -- the steps ------------------------------------------------------------------------------------------------

    def _raise_the_curtain(self) -> None:
        timeline, settings = self._timeline, self._settings
        timeline.rule("Kafka and Spark")
        self._closing.callback(self._feed.close)
        self._feed.open()
        broker = EmbeddedBroker(data_dir=settings.directory / "kafka" if settings.keep else None)
        self._closing.enter_context(broker)
        self._servers = broker.bootstrap_servers
        timeline.say(f"Kafka runs: one node, {self._servers}")
        self._access = KafkaAccess.to(self._servers)
        admin = Admin(self._access.admin)
        admin.create_topics([TopicSpec(topic, PARTITIONS) for topic in (*INPUTS, *OUTPUTS)])
        timeline.say(f"topics created, {PARTITIONS} partitions each: {', '.join((*INPUTS, *OUTPUTS))}")
        self._backlog = self._closing.enter_context(Backlog(self._access, APPLICATION_ID, INPUTS))
        self._watcher = Watcher(self._servers)
        self._closing.callback(self._watcher.stop)
        self._wait("Kafka to show the topics", lambda: len(admin.partition_counts((*INPUTS, *OUTPUTS))) == 4)
        self._watcher.start()
        self._feed.wait_until_open(SPARK_TIMEOUT_S)
        timeline.say("Spark runs")
        history = self._feed.write_history(self._access)
        timeline.say(f"Spark has written {history.records:,} orders of the past, in {history.elapsed_s:.1f} s")
        self._feed.start_stream(self._access)
        timeline.say(f"Spark goes on, with {settings.records_per_second:,.0f} orders a second")

    def _first_two_instances(self) -> None:
        timeline = self._timeline
        timeline.rule("Two instances start, from nothing")
        began = time.monotonic()
        first = self._start_instance()
        timeline.say(f"$ {first.command_line}", style="cyan")
        second = self._start_instance()
        timeline.say(f"the same again for {second.name}")
        self._settle("both instances to share the tasks and catch up", caught_up=True)
        seconds = time.monotonic() - began
        records = self._processed_records()
        timeline.say(f"settled: {self._shares()}")
        timeline.say(f"{records:,} orders processed exactly once, with all that came meanwhile, in {seconds:.1f} s")

    def _undisturbed(self) -> None:
        self._timeline.rule("Undisturbed, for comparison")
        self._begin("undisturbed")
        until = time.monotonic() + self._settings.steady_seconds
        self._wait("", lambda: time.monotonic() >= until)
        self._timeline.say(f"{self._settings.steady_seconds:g} s of steady processing measured")

    def _a_third_joins(self) -> None:
        self._timeline.rule("A third instance joins")
        self._begin("scale up")
        third = self._start_instance()
        self._timeline.say(f"{third.name} starts with an empty state directory; it must learn before it takes over")
        self._settle(f"{third.name} to learn its tasks and take them over")
        self._timeline.say(f"settled: {self._shares()}")

    def _a_worker_is_killed(self) -> None:
        self._timeline.rule("kill -9")
        victim = self.instances[1]
        phase = self._begin("kill -9")
        tasks = look([victim]).tasks_of(victim.name)
        phase.moved |= tasks
        pid = victim.kill_worker()
        self._timeline.say(f"worker of {victim.name} killed, process {pid}; it processed {names(tasks)}", style="red")
        self._wait(f"{victim.name} to start its worker again", lambda: set(victim.worker_pids()) - {pid})
        self._timeline.say(f"the supervisor of {victim.name} has started the worker again")
        self._settle("the tasks to be processed elsewhere, and the new worker to have its share again")
        self._timeline.say(f"settled: {self._shares()}")

    def _an_instance_is_closed(self) -> None:
        self._timeline.rule("An instance is closed")
        leaver = self.instances[0]
        phase = self._begin("close")
        tasks = look([leaver]).tasks_of(leaver.name)
        phase.moved |= tasks
        leaver.terminate()
        self._timeline.say(f"SIGTERM to {leaver.name}; it processed {names(tasks)}")
        asked = time.monotonic()
        self._wait(f"{leaver.name} to end", lambda: leaver.exit_code is not None, CLOSE_TIMEOUT_S)
        if leaver.exit_code != 0:
            raise DemoFailed(f"{leaver.name} ended with exit code {leaver.exit_code}, not 0")
        self._timeline.say(f"{leaver.name} has committed, left and ended, after {time.monotonic() - asked:.1f} s")
        self._settle("the others to share its tasks")
        self._timeline.say(f"settled: {self._shares()}")

    def _drain(self) -> None:
        self._timeline.rule("The end")
        self._end_phase()
        totals = self._feed.stop_stream()
        self._timeline.say(
            f"Spark has stopped, after {totals.records:,} orders at {totals.records_per_s:,.0f} a second"
        )
        self._wait("the workers to process the rest", lambda: not self._backlog.rest())
        self._timeline.say(f"all {self._processed_records():,} orders are processed and committed")
        running = self._running
        end_all(running, CLOSE_TIMEOUT_S)
        for instance in running:
            if instance.exit_code != 0:
                raise DemoFailed(f"{instance.name} ended with exit code {instance.exit_code}, not 0")
        self._timeline.say(f"{' and '.join(instance.name for instance in running)} closed")

    def _verify(self) -> Report:
        self._watcher.stop()
        table = summary(
            self._phases,
            TASKS,
            {str(task): self._watcher.moments_of(task) for task in TASKS},
            {f"input {number}": moments for number, moments in enumerate(self._watcher.input_moments())},
            self._settings.commit_interval_ms,
        )
        self._timeline.show(table)
        self._timeline.rule("Spark recomputes the outputs from the input and compares")
        report = self._feed.verify(self._access)
        self._timeline.show(report)
        return report

    # -- what they are made of ------------------------------------------------------------------------------------

    @property
    def _running(self) -> list[Instance]:
        return [instance for instance in self.instances if instance.expected_to_run]

    def _start_instance(self) -> Instance:
        instance = Instance(len(self.instances) + 1, self._servers, self._settings)
        self.instances.append(instance)
        return instance

    def _begin(self, title: str) -> Phase:
        self._end_phase()
        phase = Phase(title, time.monotonic(), self._processed_records())
        self._phases.append(phase)
        return phase

    def _end_phase(self) -> None:
        if self._phases:
            phase = self._phases[-1]
            phase.ended = time.monotonic()
            phase.processed = self._processed_records() - phase.processed_before

    def _processed_records(self) -> int:
        """Orders whose results are committed."""
        return sum(self._backlog.committed().values())

    def _settle(self, what: str, *, caught_up: bool = False) -> None:
        """Wait until every task is processed by somebody, nothing is being learned, and outputs flow, for a while."""
        settled_since: float | None = None

        def settled() -> bool:
            nonlocal settled_since
            seen = self._look()
            good = seen.is_settled(self._settings.standbys * len(TASKS))
            good = good and not (caught_up and seen.lag_records > 2 * self._settings.records_per_second)
            good = good and not self._watcher.silent(TASKS, self._settings.silence_limit_s)
            now = time.monotonic()
            settled_since = (settled_since or now) if good else None
            return settled_since is not None and now - settled_since >= SETTLED_S

        self._wait(what, settled, why_not=self._why_not_settled)
        self._timeline.learners(())

    def _why_not_settled(self) -> str:
        seen = look(self._running)
        standbys = self._settings.standbys * len(TASKS)
        silent = self._watcher.silent(TASKS, self._settings.silence_limit_s)
        reasons = {
            "tasks that nobody processes": names(TASKS - seen.owners.keys()),
            "learners": names(learner.task for learner in seen.learners),
            "instances without a task": ", ".join(seen.idle),
            "standbys ready": f"{seen.standbys} of {standbys}" if seen.standbys != standbys else "",
            "tasks without output": names(silent),
            "lag": f"{seen.lag_records:,} records",
        }
        return "; ".join(f"{name}: {value}" for name, value in reasons.items() if value)

    def _look(self) -> Look:
        """Look, and tell what has changed."""
        seen = look(self._running)
        self._timeline.learners(seen.learners)
        self._learned |= {(learner.task, learner.instance): learner.restored for learner in seen.learners}
        taken: dict[tuple[str, str], list[TaskId]] = {}
        for task, owner in sorted(seen.owners.items()):
            before = self._owners.get(task, "")
            if before != owner:
                taken.setdefault((before, owner), []).append(task)
                if before and self._phases:
                    self._phases[-1].moved.add(task)
            self._owners[task] = owner
        for (before, owner), tasks in taken.items():
            origin = f" from {before}" if before else ""
            learned = sum(self._learned.pop((task, owner), 0) for task in tasks)
            after = f", having learned {learned:,} changelog records" if learned else ""
            self._timeline.say(f"{owner} takes over {names(tasks)}{origin}{after}", style="green")
        return seen

    def _shares(self) -> str:
        seen = look(self._running)
        return ", ".join(f"{instance.name} has {len(seen.tasks_of(instance.name))} tasks" for instance in self._running)

    def _wait(
        self,
        what: str,
        condition: Callable[[], object],
        timeout_s: float = STEP_TIMEOUT_S,
        why_not: Callable[[], str] = lambda: "",
    ) -> None:
        left_s, looked_at = timeout_s, time.monotonic()
        while True:
            self._feed.check()
            self._watcher.check()
            for instance in self.instances:
                instance.check()
            if condition():
                return
            now = time.monotonic()
            # Time in which nothing ran at all, since the machine slept, is not the step's.
            left_s -= min(now - looked_at, STANDSTILL_S)
            looked_at = now
            if left_s <= 0:
                reason = why_not()
                raise DemoFailed(
                    f"gave up waiting for {what}, after {timeout_s:g} s" + (f" ({reason})" if reason else "")
                )
            time.sleep(POLL_S)
