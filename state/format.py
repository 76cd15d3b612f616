"""The bytes that stores keep on disk. A versioned contract: `tests/contract/test_store_format.py` pins every version.

Inside a store's RocksDB there is one column family and two kinds of keys, told apart by their first byte:

    00              the store's meta record: one, described below
    01 <key>        a record; its value is in the format that the meta record names

Values are in one of two formats (KIP-258): *plain* (the value's bytes) or *timestamped* (8 bytes, big-endian and
signed: the record's timestamp in milliseconds; then the value's bytes). New stores are timestamped; plain ones are read
and written as they are until they are upgraded, and their timestamps read as `NO_TIMESTAMP`.

The meta record is written in the same batch as the values that it describes, so the pair is never torn:

    u8  version of the meta record, 1
    u8  value format: 0 plain, 1 timestamped
    i64 changelog offset to restore from next, big-endian; -1 when the store has no place in a changelog yet
"""

from __future__ import annotations

import struct
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from state.errors import StoreDamaged, UnsupportedStoreFormat

NO_TIMESTAMP = -1
"""The timestamp of a value that has none: it is absent, or it was read from a plain store."""

META_KEY = b"\x00"
RECORD_TAG = b"\x01"
RECORD_END = b"\x02"
"""The first key after every record, as the upper bound of scans."""

META_VERSION = 1
_META = struct.Struct(">BBq")
_NO_OFFSET = -1

TIMESTAMP = struct.Struct(">q")
TIMESTAMP_BYTES = TIMESTAMP.size


class StoreFormat(IntEnum):
    """How values are laid out. The numbers are on disk."""

    PLAIN = 0
    TIMESTAMPED = 1


class StoreMeta(NamedTuple):
    """What a store knows of itself."""

    format: StoreFormat
    changelog_offset: int | None
    """The next changelog offset to restore from; None before the first write."""


def encode_meta(meta: StoreMeta) -> bytes:
    """The meta record's bytes, in the newest version."""
    offset = _NO_OFFSET if meta.changelog_offset is None else meta.changelog_offset
    return _META.pack(META_VERSION, meta.format, offset)


def decode_meta(data: bytes, path: Path) -> StoreMeta:
    """Read a meta record; `path` is named in errors.

    Raises:
        UnsupportedStoreFormat: a version or a value format that this code does not know.
        StoreDamaged: not a meta record at all.
    """
    if not data:
        raise StoreDamaged("the store's meta record is empty", path)
    if data[0] != META_VERSION:
        raise UnsupportedStoreFormat(
            f"the store was written in format version {data[0]}, and this software knows version {META_VERSION}; "
            "run the newer software again, or delete the store to have it restored from its changelog",
            path,
        )
    if len(data) != _META.size:
        raise StoreDamaged(f"the store's meta record has {len(data)} bytes instead of {_META.size}", path)
    _, value_format, offset = _META.unpack(data)
    if value_format not in StoreFormat._value2member_map_:
        raise UnsupportedStoreFormat(f"the store's values are in the unknown format {value_format}", path)
    if offset < _NO_OFFSET:
        raise StoreDamaged(f"the store's meta record names the changelog offset {offset}", path)
    return StoreMeta(StoreFormat(value_format), None if offset == _NO_OFFSET else offset)


def encode_value(value: bytes, timestamp_ms: int, value_format: StoreFormat) -> bytes:
    """A value as it stands on disk."""
    return TIMESTAMP.pack(timestamp_ms) + value if value_format is StoreFormat.TIMESTAMPED else value


def decode_value(data: bytes, value_format: StoreFormat) -> tuple[bytes, int]:
    """`(value, timestamp_ms)` of a value on disk. Raises struct.error when a timestamped value is too short."""
    if value_format is StoreFormat.PLAIN:
        return data, NO_TIMESTAMP
    return data[TIMESTAMP_BYTES:], TIMESTAMP.unpack_from(data)[0]
