"""What the restore thread tells the worker's loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assignor.model import TaskId
from kstreams_worker.tasks.task import Task
from kstreams_worker.topology.records import Partition


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """A learner or standby is within the acceptable lag, and past the end seen when it started."""

    task: Task


@dataclass(frozen=True, slots=True)
class FellBehind:
    """A learner or standby that was within the acceptable lag is no longer."""

    task: Task


@dataclass(frozen=True, slots=True)
class Finished:
    """A task's state is complete: it belongs to the loop now, which starts it at these committed offsets."""

    task: Task
    offsets: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """A task cannot be opened or restored; the worker ends with this error."""

    task: Task
    error: Exception


@dataclass(frozen=True, slots=True)
class Closed:
    """The stores of a task that was given up are closed. `error`: unexpected, and ends the worker."""

    task: TaskId
    error: BaseException | None


RestoreEvent = CaughtUp | FellBehind | Finished | TaskFailed | Closed
