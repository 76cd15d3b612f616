"""The loop answers whatever the group plane asks it, also when a commit fails meanwhile: a round may wait for the answer."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterable, Mapping
from typing import Any, cast

from assignor.model import Assignment, InstanceId, Subscription, TaskId, WorkerId
from kstreams_worker.group.events import Assigned, GroupGeneration, PrepareRound
from kstreams_worker.io.failures import ProducerLost
from kstreams_worker.observe.metrics import WorkerMetrics
from kstreams_worker.restore.events import Finished
from kstreams_worker.runtime.processor import Processor
from kstreams_worker.runtime.worker_loop import LoopParts, WorkerLoop
from kstreams_worker.runtime.worker_tasks import Restorer, TaskParts
from kstreams_worker.tasks.plan import Identity
from kstreams_worker.tasks.task import Task
from kstreams_worker.topology.records import Partition

TASK = TaskId(0, 0)


class Group:
    """What the loop says to the group plane."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def publish(
        self, said: Subscription, being_learned: frozenset[TaskId], *, applied: Assignment | None = None
    ) -> None:
        self.said.append(f"active {len(said.active)} suspended {len(said.suspended)}")

    def prepared(self, event: PrepareRound) -> None:
        self.said.append("prepared")

    def dropped(self) -> None:
        self.said.append("dropped")

    def request_rejoin(self, reason: str) -> None:
        self.said.append(f"rejoin: {reason}")


class DataPath:
    """A processor of no records."""

    is_processing = True
    buffer_is_full = False

    def __init__(self, *, loses_its_producer: bool) -> None:
        self._loses_its_producer = loses_its_producer
        self.running: list[Task] = []

    def start(self, task: Task, offsets: Mapping[Partition, int]) -> None:
        self.running.append(task)

    def stop(self, tasks: Iterable[Task]) -> None:
        self.running = [task for task in self.running if task not in list(tasks)]

    def commit(self) -> bool:
        if self._loses_its_producer:
            raise ProducerLost("for the test")
        return True

    def turn(self, timeout_s: float) -> int:
        return 0

    def settle(self, *, wait: bool = False) -> bool:
        return True

    def begin_commit(self) -> bool:
        return True

    def lag_records(self) -> dict[Partition, int]:
        return {}

    def abort(self) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """Nothing to close."""


class RestoreThread:
    def __init__(self, events: queue.SimpleQueue[Any]) -> None:
        self._events = events

    def finish(self, task: Task, fence: Iterable[WorkerId] = ()) -> None:
        self._events.put(Finished(task, {}))

    def drop(self, task: Task) -> None:
        """It follows nothing."""


def owner_of_a_learned_task(*, loses_its_producer: bool) -> tuple[WorkerLoop, Group, queue.SimpleQueue[Any]]:
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    group = Group()
    paths = iter((DataPath(loses_its_producer=loses_its_producer), DataPath(loses_its_producer=False)))
    tasks = TaskParts(
        restorer=cast(Restorer, RestoreThread(events)),
        new_processor=lambda: cast(Processor, next(paths)),
        new_task=lambda task, role: Task(task, role, True, (("words", task.partition),)),
        bind=lambda _: None,
        close_task=lambda _: None,
        dormant=dict,
        metrics=WorkerMetrics(),
    )
    loop = WorkerLoop(
        LoopParts(
            identity=Identity(WorkerId(InstanceId(bytes(16)), 0), bytes(8), 1, "worker"),
            group=group,
            tasks=tasks,
            metrics=WorkerMetrics(),
            commit_interval_s=60.0,
            partial_rebalance=True,
        ),
        events,
    )
    loop.publish_first()
    given = Assignment(active=frozenset({TASK}), being_learned=frozenset({TASK}))
    events.put(Assigned(GroupGeneration(1, "me"), given, True, 0.1, frozenset(), False))
    loop.turn()
    loop.turn()
    group.said.clear()
    return loop, group, events


def prepare_round() -> PrepareRound:
    return PrepareRound(time.monotonic() + 60, frozenset({TASK}))


def test_before_a_round_a_learned_task_is_suspended() -> None:
    loop, group, events = owner_of_a_learned_task(loses_its_producer=False)
    events.put(prepare_round())
    loop.turn()
    assert group.said == ["active 0 suspended 1", "prepared"]


def test_a_round_is_answered_also_when_the_commit_before_it_fails() -> None:
    """Unanswered, the group plane would take the loop for busy ever after, and no task would be handed over any more."""
    loop, group, events = owner_of_a_learned_task(loses_its_producer=True)
    events.put(prepare_round())
    loop.turn()
    assert group.said == ["active 0 suspended 0", "rejoin: starting over", "prepared"]
