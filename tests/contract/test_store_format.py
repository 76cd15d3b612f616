"""The bytes of stores on disk, version by version. A change here needs a new version, and the old bytes stay readable."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from state import NO_TIMESTAMP, StateResources, StoreDamaged, StoreFormat, StoreSpec, UnsupportedStoreFormat, open_store
from state.format import StoreMeta, decode_meta, decode_value, encode_meta, encode_value
from state.rocks import RocksBackend

PATH = Path("app/0_0/counts")

GOLDEN_META = [
    (StoreMeta(StoreFormat.TIMESTAMPED, 0), "01 01 0000000000000000"),
    (StoreMeta(StoreFormat.TIMESTAMPED, 1_000_000), "01 01 00000000000f4240"),
    (StoreMeta(StoreFormat.TIMESTAMPED, None), "01 01 ffffffffffffffff"),
    (StoreMeta(StoreFormat.PLAIN, 7), "01 00 0000000000000007"),
    (StoreMeta(StoreFormat.TIMESTAMPED, 2**63 - 1), "01 01 7fffffffffffffff"),
]

GOLDEN_VALUES = [
    (b"v", 0, StoreFormat.TIMESTAMPED, "0000000000000000 76"),
    (b"", 1_700_000_000_000, StoreFormat.TIMESTAMPED, "0000018bcfe56800"),
    (b"v", NO_TIMESTAMP, StoreFormat.TIMESTAMPED, "ffffffffffffffff 76"),
    (b"v", NO_TIMESTAMP, StoreFormat.PLAIN, "76"),
]


@pytest.mark.parametrize(("meta", "data"), GOLDEN_META)
def test_meta_version_1(meta: StoreMeta, data: str) -> None:
    """Version, value format, changelog offset."""
    assert encode_meta(meta) == bytes.fromhex(data)
    assert decode_meta(bytes.fromhex(data), PATH) == meta


@pytest.mark.parametrize(("value", "timestamp_ms", "value_format", "data"), GOLDEN_VALUES)
def test_values(value: bytes, timestamp_ms: int, value_format: StoreFormat, data: str) -> None:
    """KIP-258: the timestamp in front of the value, or not."""
    assert encode_value(value, timestamp_ms, value_format) == bytes.fromhex(data)
    assert decode_value(bytes.fromhex(data), value_format) == (value, timestamp_ms)


@pytest.mark.parametrize("data", ["02", "02 01 0000000000000000", "ff 01 0000000000000000", "01 02 0000000000000000"])
def test_what_a_newer_version_wrote_is_refused(data: str) -> None:
    """Explicitly: guessing would destroy it."""
    with pytest.raises(UnsupportedStoreFormat, match="app/0_0/counts"):
        decode_meta(bytes.fromhex(data), PATH)


@pytest.mark.parametrize("data", ["", "01", "01 01 00", "01 01 0000000000000000 00", "01 01 fffffffffffffffe"])
def test_what_is_no_meta_record_is_damage(data: str) -> None:
    with pytest.raises(StoreDamaged, match="app/0_0/counts"):
        decode_meta(bytes.fromhex(data), PATH)


def test_keys_in_the_database(tmp_path: Path) -> None:
    """One meta record under 00, records under 01; written together, whatever the keys are."""
    store = open_store(StoreSpec("counts"), tmp_path / "counts", StateResources())
    for key in (b"", b"\x00", b"\xff", b"a"):
        store.put(key, b"v", 5)
    store.stage()
    store.commit(9)
    store.flush()
    backend = store._backend
    assert isinstance(backend, RocksBackend)
    assert dict(backend._db.items()) == {
        b"\x00": bytes.fromhex("01 01 0000000000000009"),
        b"\x01": struct.pack(">q", 5) + b"v",
        b"\x01\x00": struct.pack(">q", 5) + b"v",
        b"\x01a": struct.pack(">q", 5) + b"v",
        b"\x01\xff": struct.pack(">q", 5) + b"v",
    }
    assert [key for key, _, _ in store.all()] == [b"", b"\x00", b"a", b"\xff"]
    store.close()


def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    """It is not opened, and not taken for damaged either."""
    path = tmp_path / "counts"
    store = open_store(StoreSpec("counts"), path, StateResources())
    backend = store._backend
    assert isinstance(backend, RocksBackend)
    backend._db[b"\x00"] = b"\x02" + os.urandom(20)
    store.close()
    for _ in range(2):
        with pytest.raises(UnsupportedStoreFormat, match="format version 2"):
            open_store(StoreSpec("counts"), path, StateResources())
