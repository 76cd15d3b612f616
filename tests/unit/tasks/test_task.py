"""What a task says of itself."""

from __future__ import annotations

import pytest

from assignor.model import CopyState, LagRecords, TaskId
from kstreams_worker.tasks.states import Role
from kstreams_worker.tasks.task import Task
from state.memory import MemoryBackend
from state.resources import StateResources
from state.spec import StoreSpec
from state.store import KeyValueStore


@pytest.mark.parametrize(
    ("persistent", "left"),
    [([True], True), ([True, True], True), ([True, False], False), ([False], False), ([], False)],
)
def test_what_is_left_on_disk(persistent: list[bool], left: bool) -> None:
    """All of the state or nothing: with a store in memory the whole changelog of that one is to be restored."""
    task = Task(TaskId(0, 1), Role.ACTIVE, bool(persistent), (("input", 1),))
    for number, on_disk in enumerate(persistent):
        spec = StoreSpec(f"store-{number}", persistent=on_disk)
        task.stores[spec.name] = KeyValueStore(spec, MemoryBackend(), StateResources())
        task.changelogs[spec.changelog_topic("app"), 1] = task.stores[spec.name]
    assert task.left_on_disk == (CopyState(LagRecords(0)) if left else None)
