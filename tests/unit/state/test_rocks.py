"""RocksDB under a store: locks, damage, full disks, writes that would stall, and what an open database leaves behind."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from state import (
    NO_TIMESTAMP,
    KeyValueStore,
    StateError,
    StateInUse,
    StateResources,
    StoreDamaged,
    StoreDiskFull,
    StoreFormat,
    StoreSpec,
    open_store,
    rocks,
)
from state.rocks import RocksBackend

SPEC = StoreSpec("names")
PROJECT = Path(__file__).parents[3]


def opened(path: Path) -> KeyValueStore:
    return open_store(SPEC, path, StateResources())


def fill(path: Path, entries: int = 5_000) -> None:
    store = opened(path)
    for number in range(entries):
        store.put(b"%06d" % number, os.urandom(50), 1)
    store.stage()
    store.commit(9)
    store.close()


def run_elsewhere(program: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, str(path)], cwd=PROJECT, capture_output=True, text=True, check=False
    )


OPEN_ELSEWHERE = """
import sys
from pathlib import Path
from state import StateInUse, StateResources, StoreSpec, open_store
try:
    open_store(StoreSpec("names"), Path(sys.argv[1]), StateResources()).close()
except StateInUse:
    sys.exit(3)
"""


def test_a_store_can_be_open_once(tmp_path: Path) -> None:
    """In this process or another; closing lets both have it."""
    store = opened(tmp_path / "names")
    with pytest.raises(StateInUse):
        opened(tmp_path / "names")
    assert run_elsewhere(OPEN_ELSEWHERE, tmp_path / "names").returncode == 3
    store.close()
    opened(tmp_path / "names").close()
    assert run_elsewhere(OPEN_ELSEWHERE, tmp_path / "names").returncode == 0


def test_closing_ends_scans_that_are_under_way(tmp_path: Path) -> None:
    """An iterator would keep the database, and its lock, alive."""
    fill(tmp_path / "names", 10)
    store = opened(tmp_path / "names")
    scan = store.all()
    next(scan)
    store.close()
    assert list(scan) == []
    opened(tmp_path / "names").close()


def test_a_closed_store_is_an_error_not_a_crash(tmp_path: Path) -> None:
    store = opened(tmp_path / "names")
    store.close()
    with pytest.raises(StateError):
        store.peek(b"a")


def _flip(path: Path, pattern: str, position: int) -> None:
    file = sorted(path.glob(pattern))[0]
    data = bytearray(file.read_bytes())
    data[position] ^= 0xFF
    file.write_bytes(data)


def _truncate(path: Path, pattern: str) -> None:
    for file in path.glob(pattern):
        os.truncate(file, 20)


def _remove(path: Path, pattern: str) -> None:
    for file in path.glob(pattern):
        file.unlink()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a changed byte in the first block": lambda path: _flip(path, "*.sst", 1_000),
    "a changed byte in a table's footer": lambda path: _flip(path, "*.sst", -4),
    "a table that is gone": lambda path: _remove(path, "*.sst"),
    "a table cut short": lambda path: _truncate(path, "*.sst"),
    "a changed byte in the manifest": lambda path: _flip(path, "MANIFEST*", 80),
    "a manifest cut short": lambda path: _truncate(path, "MANIFEST*"),
    "a manifest that is gone": lambda path: _remove(path, "MANIFEST*"),
    "nonsense in CURRENT": lambda path: (path / "CURRENT").write_text("nonsense"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_files_are_found_at_opening(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    """One line that names the directory and the next step; afterwards the directory can be moved away."""
    path = tmp_path / "names"
    fill(path)
    damage(path)
    with pytest.raises(StoreDamaged, match=rf"^{path}: .*set the directory aside") as caught:
        opened(path)
    assert "\n" not in str(caught.value)
    path.rename(tmp_path / "aside")
    opened(path).close()


@pytest.mark.parametrize("how", ["peek", "all"])
def test_damage_is_found_when_it_is_read(tmp_path: Path, how: str) -> None:
    """And the error, while it is still around, does not keep the database open."""
    path = tmp_path / "names"
    fill(path)
    _flip(path, "*.sst", 150_000)
    store = opened(path)
    with pytest.raises(StoreDamaged) as caught:
        if how == "peek":
            for number in range(5_000):
                store.peek(b"%06d" % number)
        else:
            list(store.all())
    store.close()
    opened(path).close()
    assert caught.value.path == path


FILL_A_SMALL_DISK = """
import os, subprocess, sys
from pathlib import Path
from state import StateResources, StoreDiskFull, StoreSpec, open_store
disk = Path(sys.argv[1])
if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk], stderr=subprocess.DEVNULL).returncode:
    sys.exit(77)
store = open_store(StoreSpec("names"), disk / "names", StateResources())
offset = 0
try:
    while True:
        offset += 1000
        for _ in range(1000):
            store.put(os.urandom(16), os.urandom(100), 1)
        store.stage()
        store.commit(offset)
        store.flush()
except StoreDiskFull as error:
    print(error)
try:
    store.close()
except StoreDiskFull:
    print("closed")
subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
store = open_store(StoreSpec("names"), disk / "names", StateResources())
print(store.changelog_offset, sum(1 for _ in store.all()))
store.close()
"""


def test_a_full_disk_is_reported_and_harms_nothing(tmp_path: Path) -> None:
    """With some room again the store is what it was at its last flush, offset and values together."""
    unshare = shutil.which("unshare")
    command = [unshare or "", "--user", "--map-root-user", "--mount", sys.executable, "-c", FILL_A_SMALL_DISK]
    if unshare is None:
        pytest.skip("needs unshare, to mount a small disk")
    done = subprocess.run([*command, str(tmp_path)], cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("may not mount a small disk here")
    assert done.returncode == 0, done.stderr
    message, closed, found = done.stdout.splitlines()
    assert message.startswith(f"{tmp_path}/names: the disk is full; free some space")
    assert closed == "closed"
    offset, entries = found.split()
    assert int(offset) == int(entries) > 0


def test_errors_are_told_apart_by_their_text(tmp_path: Path) -> None:
    """RocksDB's own texts: rocksdict raises plain Exceptions."""
    full = Exception(
        "IO error: No space left on device: While appending to file: /x/000024.sst: No space left on device"
    )
    files = Exception("IO error: While open a file for random read: /x/000008.sst: Too many open files")
    lost = Exception("IO error: No such file or directory: While open a file for random read: /x/000008.sst")
    assert isinstance(rocks.translate(full, tmp_path), StoreDiskFull)
    assert "ulimit" in str(rocks.translate(files, tmp_path))
    assert isinstance(rocks.translate(lost, tmp_path, opening=True), StoreDamaged)
    assert type(rocks.translate(Exception("IO error: whatever"), tmp_path)) is StateError


def test_writes_that_would_stall_wait_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RocksDB would wait with Python's global lock held; it refuses instead, and the write is tried again."""
    backend = rocks.RocksBackend(tmp_path / "names", StateResources(), StoreFormat.TIMESTAMPED)
    backend._db.set_options({"write_buffer_size": "65536", "max_write_buffer_number": "2"})
    waits = 0
    await_room = backend._await_room

    def counted(deadline: float) -> None:
        nonlocal waits
        waits += 1
        await_room(deadline)

    monkeypatch.setattr(backend, "_await_room", counted)
    for number in range(50):
        backend.write([(b"%d" % number, os.urandom(50_000), 1)], number)
    assert waits > 0
    assert backend.changelog_offset == 49
    assert sum(1 for _ in backend.scan(None, None, backwards=False)) == 50
    backend.close()


def test_a_write_that_stays_refused_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is applied."""
    monkeypatch.setattr(rocks, "STALL_LIMIT_S", 0.0)
    backend = rocks.RocksBackend(tmp_path / "names", StateResources(), StoreFormat.TIMESTAMPED)
    backend._db.set_options({"write_buffer_size": "65536", "max_write_buffer_number": "2"})
    with pytest.raises(StateError, match="cannot keep up"):
        for number in range(200):
            backend.write([(b"%d" % number, os.urandom(50_000), 1)], number)
    offset = backend.changelog_offset
    assert offset is not None
    assert sum(1 for _ in backend.scan(None, None, backwards=False)) == offset + 1
    backend.close()


def test_a_plain_store_is_read_and_written_as_it_is(tmp_path: Path) -> None:
    """Until it is upgraded; its values have no timestamps."""
    path = tmp_path / "names"
    store = open_store(SPEC, path, StateResources(), new_format=StoreFormat.PLAIN)
    store.put(b"a", b"1", 10)
    store.put(b"b", b"2", 20)
    store.stage()
    store.commit(2)
    store.close()
    store = opened(path)
    assert store.format is StoreFormat.PLAIN
    assert store.changelog_offset == 2
    assert list(store.all()) == [(b"a", b"1", NO_TIMESTAMP), (b"b", b"2", NO_TIMESTAMP)]
    store.restore([b"a"], [b"3"], [30], 3)
    store.close()
    store = opened(path)
    assert store.peek(b"a") == (b"3", NO_TIMESTAMP)
    store.close()


def test_no_write_ahead_log_is_written(tmp_path: Path) -> None:
    """The changelog is the log: a second one would cost as much as the store itself."""
    store = opened(tmp_path / "names")
    for _ in range(1000):
        store.put(os.urandom(16), os.urandom(100), 1)
    store.stage()
    store.commit(1)
    store.flush()
    assert sum(file.stat().st_size for file in (tmp_path / "names").glob("*.log")) == 0
    store.close()


@pytest.mark.parametrize("format", StoreFormat)
def test_many_keys_are_read_as_one_by_one(tmp_path: Path, format: StoreFormat) -> None:
    """From files as from write buffers, in the order asked, twice if asked twice."""
    backend = RocksBackend(tmp_path / "names", StateResources(), format)
    backend.write([(b"%06d" % number, b"old", 1) for number in range(5_000)], 1)
    backend.flush(wait=True)
    backend.write([(b"%06d" % number, b"new", 2) for number in range(0, 5_000, 2)] + [(b"000001", None, 2)], 2)
    keys = [b"000003", b"000002", b"none", b"000001", b"000003", b""]
    assert backend.get_many(keys) == [backend.get(key) for key in keys]
    assert backend.get_many(keys)[1] == (b"new", 2 if format is StoreFormat.TIMESTAMPED else NO_TIMESTAMP)
    assert backend.get_many([]) == []
    backend.close()
    with pytest.raises(StateError, match="closed"):
        backend.get_many(keys)


@pytest.mark.skipif(not hasattr(psutil.Process, "io_counters"), reason="this system does not count a process's reads")
def test_a_look_up_reads_little_however_large_the_file(tmp_path: Path) -> None:
    """The filter and index of a large file do not fit the cache as a whole; read for each key, they cost 500 KB a time."""
    process = psutil.Process()
    backend = RocksBackend(tmp_path / "names", StateResources(block_cache_bytes=256 * 1024), StoreFormat.TIMESTAMPED)
    keys = [b"%09d" % number for number in range(300_000)]
    for start in range(0, len(keys), 5_000):
        backend.write([(key, b"value", 1) for key in keys[start : start + 5_000]], start)
    backend.flush(wait=True)
    backend._db.compact_range(None, None)
    before = process.io_counters().read_chars
    for key in random.Random(1).sample(keys, 500):
        assert backend.get(key) == (b"value", 1)
    assert (process.io_counters().read_chars - before) / 500 < 40_000
    backend.close()
