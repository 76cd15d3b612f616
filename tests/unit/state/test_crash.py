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
from state import open_store, write_behind

write_behind.REPLAY_RECORDS_MAX = 100
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
from state import StateResources, open_store, write_behind

write_behind.REPLAY_RECORDS_MAX, write_behind.PASS_ENTRIES_MIN = 50, 20
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


def state_after(offset: int) -> dict[bytes, int]:
    state: dict[bytes, int] = {}
    for each in range(1, offset + 1):
        for key, value in changes(each):
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
    return state


@pytest.mark.parametrize("mode", ["commit", "flush", "restore", "passes"])
def test_a_replay_mends_what_a_kill_has_left(tmp_path: Path, mode: str) -> None:
    """Wherever the kill strikes: values may be newer than the offset found with them, never older, so that the changelog's
    tail leads to the state at its end. The next process goes on from there."""
    path = tmp_path / "counts"
    chance = random.Random(mode)
    end = 0
    for _ in range(2):
        writer = PASSES if mode == "passes" else WRITER
        told = kill_while_it_writes(writer, path, mode, after_lines=chance.randrange(300, 600))
        store = open_store(SPEC, path, resources())
        found_offset = store.changelog_offset or 0
        assert end < found_offset, "nothing reached the disk: this test shows nothing"
        assert found_offset < told, "all reached the disk: this test shows nothing"
        if mode == "restore":
            assert {key: value for key, value, _ in store.all()} == state_after(found_offset)
        end = told + 1  # the commit that was not told of any more may be there, too
        for offset in range(found_offset + 1, end + 1):
            rows = [(key, None if value is None else SPEC.value.encode(value)) for key, value in changes(offset)]
            store.restore([key for key, _ in rows], [value for _, value in rows], [offset] * len(rows), offset)
        assert {key: value for key, value, _ in store.all()} == state_after(end)
        store.close()
