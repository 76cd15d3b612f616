"""Who has which task: one look at the status pages of all instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from assignor.model import TaskId
from examples.demo.instance import Instance
from examples.demo.settings import TASKS


@dataclass(frozen=True, slots=True)
class Learner:
    """A copy that is being made for a new owner. Counts are of changelog offsets; `end` is 0 until it is known."""

    task: TaskId
    instance: str
    restored: int
    end: int

    @property
    def percent(self) -> int:
        return 100 * min(self.restored, self.end) // self.end if self.end else 0


@dataclass(frozen=True, slots=True)
class Look:
    """What the instances said of themselves, which may be a second old."""

    owners: dict[TaskId, str]
    """Name of the instance that processes the task. A task that two of them claim, or nobody, is left out."""
    learners: tuple[Learner, ...]
    standbys: int
    """Standby copies that have caught up."""
    idle: tuple[str, ...]
    """Instances that process nothing."""
    lag_records: int

    def tasks_of(self, instance: str) -> frozenset[TaskId]:
        return frozenset(task for task, owner in self.owners.items() if owner == instance)

    def is_settled(self, standbys: int) -> bool:
        """Every task is processed, everybody has some, no learner is left, and all standbys have caught up."""
        return self.owners.keys() == TASKS and not self.learners and not self.idle and self.standbys == standbys


def look(instances: Iterable[Instance]) -> Look:
    """Ask all of them."""
    owners: dict[TaskId, str] = {}
    claims: Counter[TaskId] = Counter()
    learners: list[Learner] = []
    idle: list[str] = []
    standbys = lag_records = 0
    for instance in instances:
        busy = False
        for worker in instance.workers():
            for status in worker.get("tasks", ()) if worker["running"] else ():
                task = _task_id(status["task"])
                match status["role"], status["state"]:
                    case "active", "running" | "suspended":
                        owners[task] = instance.name
                        claims[task] += 1
                        lag_records += status["lag_records"] or 0
                        busy = True
                    case "learner", _:
                        learners.append(Learner(task, instance.name, status["restored"] or 0, status["end"] or 0))
                    case "standby", "ready":
                        standbys += 1
        if not busy:
            idle.append(instance.name)
    single = {task: owner for task, owner in owners.items() if claims[task] == 1}
    return Look(single, tuple(sorted(learners, key=lambda learner: learner.task)), standbys, tuple(idle), lag_records)


def names(tasks: Iterable[TaskId]) -> str:
    """Tasks as they are written everywhere."""
    return " ".join(map(str, sorted(tasks)))


def _task_id(text: str) -> TaskId:
    subtopology, _, partition = text.partition("_")
    return TaskId(int(subtopology), int(partition))
