"""A task's life as one table, and its role.

The role says what the task is for, the state what it is doing. A learner or a standby lives in RESTORING and READY, where the
restore thread owns its stores; an active task passes through FINISHING, where the restore thread reads the changelog to its
very end, to RUNNING, where the processing loop owns the stores.
"""

from __future__ import annotations

from enum import Enum, auto

from kstreams_worker.machine import Machine, Table


class Role(Enum):
    """What a task is for on this worker."""

    ACTIVE = "active"
    LEARNER = "learner"
    STANDBY = "standby"


class TaskState(Enum):
    """What a task is doing."""

    CREATED = "created"
    RESTORING = "restoring"
    """Following the changelog, not yet within the acceptable lag."""
    READY = "ready"
    """Following the changelog within the acceptable lag."""
    FINISHING = "finishing"
    """To become active: reading the changelog to its end and fetching the committed offsets."""
    RUNNING = "running"
    SUSPENDED = "suspended"
    """Committed and stopped with open stores, so that a learner may take over; resumes at once if none does."""
    CLOSED = "closed"


class TaskEvent(Enum):
    """What happens to a task."""

    FOLLOW = auto()
    CAUGHT_UP = auto()
    FELL_BEHIND = auto()
    PROMOTE = auto()
    STARTED = auto()
    SUSPEND = auto()
    RESUME = auto()
    DEMOTE = auto()
    CLOSE = auto()


_S, _E = TaskState, TaskEvent

TASK_TABLE: Table[TaskState, TaskEvent] = {
    _S.CREATED: {_E.FOLLOW: _S.RESTORING, _E.PROMOTE: _S.FINISHING, _E.CLOSE: _S.CLOSED},
    _S.RESTORING: {_E.CAUGHT_UP: _S.READY, _E.PROMOTE: _S.FINISHING, _E.CLOSE: _S.CLOSED},
    _S.READY: {_E.FELL_BEHIND: _S.RESTORING, _E.PROMOTE: _S.FINISHING, _E.CLOSE: _S.CLOSED},
    _S.FINISHING: {_E.STARTED: _S.RUNNING, _E.DEMOTE: _S.RESTORING, _E.CLOSE: _S.CLOSED},
    _S.RUNNING: {_E.SUSPEND: _S.SUSPENDED, _E.CLOSE: _S.CLOSED},
    _S.SUSPENDED: {_E.RESUME: _S.RUNNING, _E.DEMOTE: _S.RESTORING, _E.CLOSE: _S.CLOSED},
    _S.CLOSED: {},
}


def task_machine(name: str) -> Machine[TaskState, TaskEvent]:
    """A new task."""
    return Machine(f"task {name}", TASK_TABLE, TaskState.CREATED)
