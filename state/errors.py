"""What can go wrong with local state. Every message names the directory and says what to do next."""

from __future__ import annotations

from pathlib import Path


class StateError(Exception):
    """A state directory or a store cannot be used. `path` is the directory concerned (None: a store in memory)."""

    def __init__(self, message: str, path: Path | None = None) -> None:
        super().__init__(f"{path}: {message}" if path is not None else message)
        self.path = path


class StateInUse(StateError):
    """Somebody else holds the lock of a state directory, a task or a store. `holder_pid` is None when unknown."""

    def __init__(self, message: str, path: Path, holder_pid: int | None = None) -> None:
        super().__init__(message, path)
        self.holder_pid = holder_pid


class StoreDamaged(StateError):
    """The files of a store are damaged: set the store aside and restore it from its changelog."""


class StoreDiskFull(StateError):
    """The disk under a store is full. Nothing that was committed is lost; the changelog holds it."""


class UnsupportedStoreFormat(StateError):
    """The store was written by a newer version of this software."""


class StoreMisuse(StateError):
    """The store was called in an order that its commit protocol does not allow: a mistake in the caller's code."""


class StoreCodecError(StateError):
    """A value could not be encoded for, or decoded from, a store. Chained from the codec's own error."""

    def __init__(self, message: str, key: bytes) -> None:
        super().__init__(message)
        self.key = key
