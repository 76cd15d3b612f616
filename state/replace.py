"""Puts a store that was built beside another one in its place; a crash at any point leaves one of them, whole.

The new store is built in `<store>.prepared` (KIP-258: the new value format, from the changelog, while the old store goes
on serving). Replacing is two renames: the old directory to `<store>.replaced`, the prepared one to `<store>`. Whoever
opens the store next finds out from the directories that exist how far it came, and finishes it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from state.errors import StateError

PREPARED_SUFFIX = ".prepared"
REPLACED_SUFFIX = ".replaced"


def prepared_path(store_path: Path) -> Path:
    """Where the successor of a store is built: open a store there to fill it."""
    return store_path.with_name(store_path.name + PREPARED_SUFFIX)


def replace_by_prepared(store_path: Path) -> None:
    """Put the prepared store in the old one's place and delete the old one. Both must be closed, their task locked.

    Raises StateError when there is no prepared store, or when the file system refuses.
    """
    prepared = prepared_path(store_path)
    if not prepared.is_dir():
        raise StateError("there is no prepared store to take this one's place", store_path)
    replaced = store_path.with_name(store_path.name + REPLACED_SUFFIX)
    try:
        if store_path.is_dir():
            store_path.rename(replaced)
            _sync(store_path.parent)
        prepared.rename(store_path)
        _sync(store_path.parent)
        shutil.rmtree(replaced, ignore_errors=True)
    except OSError as error:
        raise StateError(
            f"the prepared store could not be put in place; start again to finish it ({error.strerror})", store_path
        ) from error


def finish_replacement(store_path: Path) -> None:
    """Finish a replacement that a crash interrupted. Does nothing where there was none. The task must be locked."""
    replaced = store_path.with_name(store_path.name + REPLACED_SUFFIX)
    if not replaced.is_dir():
        return
    prepared = prepared_path(store_path)
    try:
        if not store_path.is_dir():
            (prepared if prepared.is_dir() else replaced).rename(store_path)
            _sync(store_path.parent)
        shutil.rmtree(replaced, ignore_errors=True)
    except OSError as error:
        raise StateError(
            f"an interrupted replacement of the store could not be finished ({error.strerror})", store_path
        ) from error


def _sync(directory: Path) -> None:
    """Have the renames in this directory survive a crash of the machine."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
