"""The state room: key-value stores on RocksDB, written in batches, with their place in the changelog kept beside the data.

This package imports the standard library and rocksdict only. It starts no thread and talks to no Kafka client: the
runtime hands it records and offsets. Start with `open_store` and `KeyValueStore`; directories are in `StateDirectory`.
"""

from state.backend import Row
from state.directory import DormantTask, StateDirectory
from state.errors import (
    StateError,
    StateInUse,
    StoreCodecError,
    StoreDamaged,
    StoreDiskFull,
    StoreMisuse,
    UnsupportedStoreFormat,
)
from state.format import NO_TIMESTAMP, StoreFormat
from state.opening import open_store
from state.replace import prepared_path, replace_by_prepared
from state.resources import StateResources
from state.spec import Codec, StoreSpec
from state.store import KeyValueStore

__all__ = [
    "NO_TIMESTAMP",
    "Codec",
    "DormantTask",
    "Entry",
    "KeyValueStore",
    "Row",
    "StateDirectory",
    "StateError",
    "StateInUse",
    "StateResources",
    "StoreCodecError",
    "StoreDamaged",
    "StoreDiskFull",
    "StoreFormat",
    "StoreMisuse",
    "StoreSpec",
    "UnsupportedStoreFormat",
    "open_store",
    "prepared_path",
    "replace_by_prepared",
]
