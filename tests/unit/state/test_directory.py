"""Who may use which directory, what is found in it, and what is cleared away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from state import DormantTask, StateDirectory, StateError, StateInUse, StateResources, StoreSpec, open_store

HOLD_A_LOCK = """
import sys
from pathlib import Path
from state import StateDirectory
directory = StateDirectory(Path(sys.argv[1]), "app")
directory.lock_instance() if sys.argv[2] == "instance" else directory.lock_task(sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


def holder(root: Path, what: str) -> subprocess.Popen[str]:
    """A process that holds a lock until its input ends; returns once it has it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD_A_LOCK, str(root), what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def fill(directory: StateDirectory, task: str, store: str, changelog_offset: int) -> None:
    opened = open_store(StoreSpec(store), directory.store_directory(task, store), StateResources())
    opened.restore([b"a"], [b"1"], [1], changelog_offset)
    opened.close()


def test_the_process_id_is_kept(tmp_path: Path) -> None:
    """It names the instance for as long as the directory exists; applications have different ones."""
    first = StateDirectory(tmp_path, "app").process_id
    assert StateDirectory(tmp_path, "app").process_id == first
    assert StateDirectory(tmp_path, "other").process_id != first


def test_a_damaged_process_id_names_the_file(tmp_path: Path) -> None:
    StateDirectory(tmp_path, "app")
    (tmp_path / "app" / "process-id").write_text("")
    with pytest.raises(StateError, match=r"app/process-id: .*delete this file"):
        StateDirectory(tmp_path, "app")


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a b"])
def test_an_application_id_must_be_a_directory_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(StateError, match="application id"):
        StateDirectory(tmp_path, name)


def test_a_second_instance_is_told_who_has_the_directory(tmp_path: Path) -> None:
    """The message names directory and process; when that ends, the lock is free, however it ended."""
    with holder(tmp_path, "instance") as other:
        directory = StateDirectory(tmp_path, "app")
        with pytest.raises(StateInUse, match=rf"{tmp_path}/app: in use by another instance \(process {other.pid}\)"):
            directory.lock_instance()
        other.kill()
    directory.lock_instance()
    directory.unlock_instance()


def test_a_task_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    """Workers of one instance hand tasks over by closing and unlocking."""
    directory = StateDirectory(tmp_path, "app")
    with holder(tmp_path, "0_1") as other:
        with pytest.raises(StateInUse) as caught:
            directory.lock_task("0_1")
        assert caught.value.holder_pid == other.pid
        directory.lock_task("0_2")
        other.kill()
    directory.lock_task("0_1")
    with pytest.raises(StateInUse):
        StateDirectory(tmp_path, "app").lock_task("0_1")
    with pytest.raises(StateInUse):
        directory.lock_task("0_1")
    directory.unlock_task("0_1")
    directory.unlock_task("0_1")
    StateDirectory(tmp_path, "app").lock_task("0_1")


def test_a_task_id_cannot_lead_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="is no task"):
        StateDirectory(tmp_path, "app").task_directory("../x")


def test_dormant_tasks_are_reported_with_their_offsets(tmp_path: Path) -> None:
    """Not those that a process has claimed, and not what is no state."""
    directory = StateDirectory(tmp_path, "app")
    fill(directory, "0_10", "counts", 7)
    fill(directory, "0_9", "counts", 5)
    fill(directory, "0_9", "names", 6)
    fill(directory, "1_0", "counts", 8)
    directory.task_directory("2_0").mkdir()
    (directory.path / "notes").mkdir()
    with holder(tmp_path, "1_0"):
        assert directory.dormant_tasks() == [
            DormantTask("0_9", {"counts": 5, "names": 6}),
            DormantTask("0_10", {"counts": 7}),
        ]


def test_a_dormant_task_is_no_hindrance_to_its_new_owner(tmp_path: Path) -> None:
    """Looking leaves no lock behind, and several may look at a time."""
    directory = StateDirectory(tmp_path, "app")
    fill(directory, "0_0", "counts", 7)
    directory.dormant_tasks()
    StateDirectory(tmp_path, "app").lock_task("0_0")
    assert directory.dormant_tasks() == []


def test_offsets_are_found_without_the_note_of_a_clean_close(tmp_path: Path) -> None:
    """After a crash there is none; a damaged store has none to find."""
    directory = StateDirectory(tmp_path, "app")
    fill(directory, "0_0", "counts", 7)
    note = directory.store_directory("0_0", "counts") / "changelog-offset"
    note.unlink()
    directory.store_directory("0_0", "broken").mkdir()
    assert directory.dormant_tasks() == [DormantTask("0_0", {"broken": None, "counts": 7})]
    assert note.read_text() == "7\n"


def test_an_open_store_has_no_note_that_could_go_stale(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    fill(directory, "0_0", "counts", 7)
    path = directory.store_directory("0_0", "counts")
    store = open_store(StoreSpec("counts"), path, StateResources())
    assert not (path / "changelog-offset").exists()
    store.close()
    assert (path / "changelog-offset").exists()


def test_old_tasks_are_cleaned_and_used_ones_are_not(tmp_path: Path) -> None:
    """The age counts from when a task was last given up."""
    now = 1_000_000.0
    directory = StateDirectory(tmp_path, "app", clock=lambda: now)
    for task in ("0_0", "0_1", "0_2"):
        directory.lock_task(task)
        fill(directory, task, "counts", 7)
        if task != "0_2":
            directory.unlock_task(task)
    os.utime(directory.task_directory("0_0"), (now - 600, now - 600))
    os.utime(directory.task_directory("0_2"), (now - 600, now - 600))
    assert directory.clean(600_001) == []
    assert directory.clean(600_000) == ["0_0"]
    assert directory.tasks() == ["0_1", "0_2"]
    assert not directory.task_directory("0_0").exists()
    directory.lock_task("0_0")


def test_a_damaged_store_is_set_aside_and_replaced_by_an_empty_one(tmp_path: Path) -> None:
    """The latest damaged copy is kept to be looked at, and is not taken for a store."""
    now = 1_700_000_000.0
    directory = StateDirectory(tmp_path, "app", clock=lambda: now)
    assert directory.set_aside("0_0", "counts") is None
    fill(directory, "0_0", "counts", 7)
    first = directory.set_aside("0_0", "counts")
    assert first is not None
    assert first.name == "counts.damaged-20231114T221320.000000Z"
    fill(directory, "0_0", "counts", 8)
    now += 1
    second = directory.set_aside("0_0", "counts")
    assert directory.damaged_stores() == [second]
    assert directory.dormant_tasks() == []


def test_an_unwritable_root_is_an_error_with_a_next_step(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match=r"state\.dir"):
        StateDirectory(tmp_path / "file", "app")
