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


def resources() -> StateResources:
    """So little memory that entries go to RocksDB every few commits and from there to disk all the time."""
    return StateResources(cache_bytes=200_000, write_buffer_bytes=400_000)


def changes(offset: int) -> list[tuple[bytes, int | None]]:
    """What the commit that ends at this offset does: the same whoever asks."""
    chance = random.Random(offset)
    keys = chance.sample(range(KEYS), 40)
    return [(b"%06d" % key, None if chance.random() < 0.2 else offset) for key in keys]


@pytest.mark.parametrize("mode", ["commit", "restore", "flush"])
def test_values_and_offset_survive_a_kill_together(tmp_path: Path, mode: str) -> None:
    """Neither is ahead of the other, wherever the kill strikes; the next process goes on from there."""
    path = tmp_path / "counts"
    expected: dict[bytes, int] = {}
    found_offset = 0
    chance = random.Random(mode)
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), mode], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
        ) as writer:
            assert writer.stdout is not None
            # A second new table means that the first is complete: one thread writes them.
            tables = set(path.glob("*.sst"))
            awaited = len(tables) + 2
            for _ in range(chance.randrange(300, 600)):
                assert writer.stdout.readline()
            while len(tables) < awaited:
                assert writer.stdout.readline()
                tables.update(path.glob("*.sst"))
            writer.kill()
        store = open_store(SPEC, path, resources())
        before, found_offset = found_offset, store.changelog_offset or 0
        for offset in range(before + 1, found_offset + 1):
            for key, value in changes(offset):
                if value is None:
                    expected.pop(key, None)
                else:
                    expected[key] = value
        assert {key: value for key, value, _ in store.all()} == expected
        assert found_offset > before, "nothing reached the disk: this test shows nothing"
        store.close()
