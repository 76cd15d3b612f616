"""Opens stores: in RocksDB or in memory, as their specs say."""

from __future__ import annotations

from pathlib import Path

from state.format import StoreFormat
from state.memory import MemoryBackend
from state.replace import finish_replacement
from state.resources import StateResources
from state.rocks import RocksBackend
from state.spec import StoreSpec
from state.store import KeyValueStore


def open_store(
    spec: StoreSpec,
    path: Path,
    resources: StateResources,
    *,
    new_format: StoreFormat = StoreFormat.TIMESTAMPED,
) -> KeyValueStore:
    """Open the store at this directory, creating it in `new_format` if need be; an existing one keeps its format.

    Raises:
        StoreDamaged: the files are damaged.
        UnsupportedStoreFormat: written by a newer version.
        StateInUse: another process has it open.
        StateError: anything else, such as missing permissions.
    """
    if not spec.persistent:
        return KeyValueStore(spec, MemoryBackend(), resources)
    finish_replacement(path)
    return KeyValueStore(spec, RocksBackend(path, resources, new_format), resources)
