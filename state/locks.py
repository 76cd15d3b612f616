"""Locks on files, between processes and within one: the kernel drops them with the process, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from state.errors import StateError, StateInUse

_TRIES = 20
_PAUSE_S = 0.005
"""Together longer than a look at a dormant task takes, which holds the lock for a moment."""


class FileLock:
    """An exclusive `flock` on a file that names its holder's pid. Not re-entrant: two of one file exclude each other.

    The file is never deleted, so that nobody can hold a lock on one that others no longer see.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        return self._descriptor is not None

    def acquire(self, what: str) -> None:
        """Take the lock, or raise StateInUse, whose message says `what` is in use and by which process."""
        if self._descriptor is not None:
            raise StateInUse(f"{what} is in use by this process already", self.path, os.getpid())
        descriptor = _open(self.path)
        for remaining in reversed(range(_TRIES)):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not remaining:
                    holder = _read_pid(descriptor)
                    os.close(descriptor)
                    by = "another process" if holder is None else f"process {holder}"
                    raise StateInUse(f"{what} is in use by {by}", self.path, holder) from None
                time.sleep(_PAUSE_S)
            except OSError as error:
                os.close(descriptor)
                raise StateError(
                    f"the file system refuses locks; put state.dir on a local disk ({error.strerror})", self.path
                ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock up; no error if it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class SharedLook:
    """A context in which nobody holds the file's lock exclusively; `free` is False, and nothing is held, if somebody does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self.free = False

    def __enter__(self) -> SharedLook:
        self._descriptor = _open(self._path)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            self.free = True
        except BlockingIOError:
            self.free = False
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StateError(
            f"the lock file cannot be opened; check that state.dir is writable ({error.strerror})", path
        ) from error


def _read_pid(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else None
