"""The directories of one instance's state, and who may use them.

    <root>/<application.id>/process-id                 the instance's UUID
    <root>/<application.id>/instance.lock              held by the instance's supervisor
    <root>/<application.id>/locks/<task>.lock          held by the worker process that has the task's stores open
    <root>/<application.id>/<task>/<store>/            one RocksDB
    <root>/<application.id>/<task>/<store>.damaged-<utc time>/   set aside
    <root>/<application.id>/<task>/<store>.prepared/   a successor that is being built (see `state.replace`)

Task directories have Kafka Streams' form `<subtopology>_<partition>`.
"""

from __future__ import annotations

import os
import re
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from state.errors import StateError, StateInUse
from state.locks import FileLock, SharedLook
from state.offset_hint import read_offset_hint, write_offset_hint
from state.rocks import read_changelog_offset
from state.spec import DAMAGED_INFIX, is_store_name

_TASK = re.compile(r"\d+_\d+")
_APPLICATION = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}")


@dataclass(frozen=True, slots=True)
class DormantTask:
    """State on disk that no worker of the instance has open. `task` is written `<subtopology>_<partition>`."""

    task: str
    offsets: dict[str, int | None]
    """The changelog offset of each store; None: a store whose offset could not be found out, or that has none."""


class StateDirectory:
    """One application's state of one instance. Every process of the instance has its own; locks keep them apart.

    `clock` gives seconds of the epoch. Raises StateError, with the directory in the message, where it is not usable.
    """

    def __init__(self, root: Path, application_id: str, *, clock: Callable[[], float] = time.time) -> None:
        if not _APPLICATION.fullmatch(application_id):
            raise StateError(f"the application id {application_id!r} cannot be a directory's name", root)
        self.path = root / application_id
        self._clock = clock
        self._task_locks: dict[str, FileLock] = {}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StateError(
                f"the state directory cannot be made; set state.dir to a writable place ({error.strerror})", self.path
            ) from error
        self._instance_lock = FileLock(self.path / "instance.lock")
        self.process_id = self._read_process_id() or self._make_process_id()

    # -- the instance -----------------------------------------------------------------------------------------------

    def lock_instance(self) -> None:
        """Claim the directory for this instance until `unlock_instance` or the end of the process.

        Raises StateInUse, naming directory and pid, when another instance has it.
        """
        try:
            self._instance_lock.acquire("the state directory")
        except StateInUse as error:
            by = "another instance" if error.holder_pid is None else f"another instance (process {error.holder_pid})"
            raise StateInUse(
                f"in use by {by}; stop it, or give each instance on this machine its own state.dir",
                self.path,
                error.holder_pid,
            ) from None

    def unlock_instance(self) -> None:
        """Give the directory up."""
        self._instance_lock.release()

    def _read_process_id(self) -> uuid.UUID | None:
        path = self.path / "process-id"
        try:
            return uuid.UUID(path.read_text(encoding="ascii").strip())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StateError(f"holds no process id; delete this file to get a new one ({error})", path) from error

    def _make_process_id(self) -> uuid.UUID:
        """Write a new id, whole or not at all; the first of several processes that try wins."""
        made = uuid.uuid4()
        new = self.path / f"process-id.{made.hex}"
        try:
            with new.open("w", encoding="ascii") as file:
                file.write(f"{made}\n")
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                (self.path / "process-id").hardlink_to(new)
            new.unlink()
        except OSError as error:
            raise StateError(
                f"the process id cannot be written; check permissions and free space ({error.strerror})", self.path
            ) from error
        found = self._read_process_id()
        assert found is not None
        return found

    # -- tasks ------------------------------------------------------------------------------------------------------

    def task_directory(self, task: str) -> Path:
        """Where a task's stores are; it need not exist."""
        if not _TASK.fullmatch(task):
            raise StateError(f"{task!r} is no task: expected <subtopology>_<partition>", self.path)
        return self.path / task

    def store_directory(self, task: str, store: str) -> Path:
        """Where a store of a task is; it need not exist."""
        return self.task_directory(task) / store

    def lock_task(self, task: str) -> None:
        """Claim a task's stores for this process.

        Raises StateInUse, with the holder's pid, when another process (or this one) has them.
        """
        lock = self._task_locks.get(task) or FileLock(self._lock_path(task))
        lock.acquire(f"task {task}")
        self._task_locks[task] = lock

    def unlock_task(self, task: str) -> None:
        """Give a task's stores up; they must be closed. No error if they are not claimed."""
        lock = self._task_locks.pop(task, None)
        if lock is not None:
            with suppress(OSError):  # its age, for clean()
                os.utime(self.task_directory(task), (self._clock(), self._clock()))
            lock.release()

    def _lock_path(self, task: str) -> Path:
        self.task_directory(task)  # refuses what is no task
        return self.path / "locks" / f"{task}.lock"

    def tasks(self) -> list[str]:
        """All tasks that have a directory, in order."""
        names = [path.name for path in self._entries(self.path) if _TASK.fullmatch(path.name) and path.is_dir()]
        return sorted(names, key=lambda name: tuple(map(int, name.split("_"))))

    def dormant_tasks(self) -> list[DormantTask]:
        """The tasks that have state and that no process has claimed, with the changelog offsets of their stores.

        The offsets come from small files that a clean close writes. After a crash they are missing: then RocksDB is
        opened for reading, once, and the file is written.
        """
        found: list[DormantTask] = []
        for task in self.tasks():
            with SharedLook(self._lock_path(task)) as look:
                if look.free:
                    offsets = {path.name: _known_offset(path) for path in self._stores(task)}
                    if offsets:
                        found.append(DormantTask(task, offsets))
        return found

    def store_bytes(self, tasks: Iterable[str]) -> dict[str, int]:
        """Size on disk of each store, over these tasks. They may be in use: a file that goes away counts as nothing."""
        sizes: Counter[str] = Counter()
        for task in tasks:
            for store in self._stores(task):
                for file in self._entries(store):
                    with suppress(FileNotFoundError):
                        sizes[store.name] += file.stat().st_size
        return dict(sizes)

    def _stores(self, task: str) -> Iterator[Path]:
        for path in self._entries(self.task_directory(task)):
            if is_store_name(path.name) and path.is_dir():
                yield path

    # -- clearing up ------------------------------------------------------------------------------------------------

    def clean(self, older_than_ms: int) -> list[str]:
        """Delete the state of tasks that nobody has had open for this long; returns those tasks."""
        cleaned: list[str] = []
        for task in self.tasks():
            directory = self.task_directory(task)
            try:
                self.lock_task(task)
            except StateInUse:
                continue
            try:
                age_ms = (self._clock() - directory.stat().st_mtime) * 1000
                if age_ms >= older_than_ms:
                    shutil.rmtree(directory, ignore_errors=True)
                    cleaned.append(task)
            except FileNotFoundError:
                pass
            finally:
                self._task_locks.pop(task).release()
        return cleaned

    def set_aside(self, task: str, store: str) -> Path | None:
        """Rename a damaged store's directory out of the way, to be looked at; the store must be closed, its task claimed.

        Returns the new path; None when there is no such directory. An older one of the same store is deleted, so that
        repeated damage does not fill the disk.
        """
        path = self.store_directory(task, store)
        if not path.is_dir():
            return None
        earlier = [other for other in self._entries(path.parent) if other.name.startswith(store + DAMAGED_INFIX)]
        now = datetime.fromtimestamp(self._clock(), UTC)
        aside = path.with_name(f"{store}{DAMAGED_INFIX}{now:%Y%m%dT%H%M%S.%fZ}")
        for other in earlier:
            shutil.rmtree(other, ignore_errors=True)
        try:
            path.rename(aside)
        except OSError as error:
            raise StateError(f"the damaged store cannot be set aside; delete it ({error.strerror})", path) from error
        return aside

    def damaged_stores(self) -> list[Path]:
        """What has been set aside and not deleted since."""
        return [
            path
            for task in self.tasks()
            for path in self._entries(self.task_directory(task))
            if DAMAGED_INFIX in path.name
        ]

    def _entries(self, directory: Path) -> list[Path]:
        try:
            return sorted(directory.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StateError(f"cannot be read; check its permissions ({error.strerror})", directory) from error


def _known_offset(store: Path) -> int | None:
    offset = read_offset_hint(store)
    if offset is None:
        offset = read_changelog_offset(store)
        write_offset_hint(store, offset)
    return offset
