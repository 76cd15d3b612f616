"""A process that is killed while it writes: what is found afterwards is the state at the offset that is found."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from state import Codec, StateResources, StoreSpec, open_store

KEYS = 3_000
SPEC = StoreSpec("counts", value=Codec(lambda value: b"%d" % value, int))

WRITER = """
import sys
from pathlib import Path
from tests.unit.state.test_crash import SPEC, changes, resources
from state import open_store

store = open_store(SPEC, Path(sys.argv[1]), resources())
offset = store.changelog_offset or 0
while True:
    offset += 1
    if sys.argv[2] == "restore":
        rows = [(key, None if value is None else SPEC.value.encode(value)) for key, value in changes(offset)]
        store.restore([key for key, _ in rows], [value for _, value in rows], [offset] * len(rows), offset)
    else:
        for key, value in changes(offset):
            store.put(key, value, offset)
        store.stage()
        store.commit(offset)
    if offset % 100 == 0 and sys.argv[2] == "flush":
        store.flush()
    print(offset, flush=True)
"""

PASSES = """
import sys
from pathlib import Path
from tests.unit.state.test_crash import SPEC, changes
from state import StateResources, open_store, store as store_module

store_module.REPLAY_RECORDS_MAX, store_module.PASS_ENTRIES_MIN = 50, 20
store = open_store(SPEC, Path(sys.argv[1]), StateResources(write_buffer_bytes=400_000))
for offset in range((store.changelog_offset or 0) + 1, 1_000_000):
    for key, value in changes(offset):
        store.put(key, value, offset)
    store.stage()
    store.commit(offset)
    print(offset, flush=True)
"""


def resources() -> StateResources:
    """So little memory that entries go to RocksDB every few commits and from there to disk all the time."""
    return StateResources(cache_bytes=200_000, write_buffer_bytes=400_000)


def changes(offset: int) -> list[tuple[bytes, int | None]]:
    """What the commit that ends at this offset does: the same whoever asks."""
    chance = random.Random(offset)
    keys = chance.sample(range(KEYS), 40)
    return [(b"%06d" % key, None if chance.random() < 0.2 else offset) for key in keys]


def kill_while_it_writes(writer: str, path: Path, *arguments: str, after_lines: int) -> int:
    """Run the writer until tables have come to disk, and kill it. Returns the last offset it told."""
    with subprocess.Popen(
        [sys.executable, "-c", writer, str(path), *arguments], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    ) as process:
        assert process.stdout is not None
        # A second new table means that the first is complete: one thread writes them.
        tables = set(path.glob("*.sst"))
        awaited = len(tables) + 2
        told = [process.stdout.readline() for _ in range(after_lines)]
        while len(tables) < awaited:
            told.append(process.stdout.readline())
            tables.update(path.glob("*.sst"))
            assert told[-1], "it ended by itself"
        process.kill()
        told += process.stdout
        return int([line for line in told if line.endswith(b"\n")][-1])


def apply(expected: dict[bytes, int], offsets: range) -> None:
    for offset in offsets:
        for key, value in changes(offset):
            if value is None:
                expected.pop(key, None)
            else:
                expected[key] = value


@pytest.mark.parametrize("mode", ["commit", "restore", "flush"])
def test_values_and_offset_survive_a_kill_together(tmp_path: Path, mode: str) -> None:
    """Neither is ahead of the other, wherever the kill strikes; the next process goes on from there."""
    path = tmp_path / "counts"
    expected: dict[bytes, int] = {}
    found_offset = 0
    chance = random.Random(mode)
    for _ in range(2):
        kill_while_it_writes(WRITER, path, mode, after_lines=chance.randrange(300, 600))
        store = open_store(SPEC, path, resources())
        before, found_offset = found_offset, store.changelog_offset or 0
        apply(expected, range(before + 1, found_offset + 1))
        assert {key: value for key, value, _ in store.all()} == expected
        assert found_offset > before, "nothing reached the disk: this test shows nothing"
        store.close()


def test_a_replay_to_the_end_mends_a_pass_that_was_cut_short(tmp_path: Path) -> None:
    """Values may be ahead of the offset then; the changelog leads both to the same state."""
    path = tmp_path / "counts"
    told = kill_while_it_writes(PASSES, path, after_lines=700)
    store = open_store(SPEC, path, resources())
    found_offset = store.changelog_offset or 0
    assert 0 < found_offset < told, "nothing reached the disk, or all: this test shows nothing"
    end = told + 1  # the commit that was not told of any more may be there, too
    for offset in range(found_offset + 1, end + 1):
        rows = [(key, None if value is None else SPEC.value.encode(value)) for key, value in changes(offset)]
        store.restore([key for key, _ in rows], [value for _, value in rows], [offset] * len(rows), offset)
    expected: dict[bytes, int] = {}
    apply(expected, range(1, end + 1))
    assert {key: value for key, value, _ in store.all()} == expected
    store.close()
