"""A store does what a dict with a commit does: any order of calls, over RocksDB and memory, in little memory and much."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from state import NO_TIMESTAMP, Codec, KeyValueStore, StateResources, StoreSpec, open_store, write_behind
from state.backend import Row

ALL_KEYS = [b"", b"\x00", b"a", b"ab", b"b", b"\xff", b"\xff\xff"]
"""Few, so that they meet in all layers."""
KEYS = st.sampled_from(ALL_KEYS)
NUMBERS = st.integers(-5, 5)
TIMES = st.integers(0, 100)
OPTIONAL_KEYS = st.none() | KEYS

LIST = Codec(
    lambda numbers: b",".join(b"%d" % number for number in numbers), lambda data: [int(n) for n in data.split(b",")]
)
"""Lists: values that processing changes in place."""

Rows = dict[bytes, tuple[list[int], int]]


def _copy(rows: Rows) -> Rows:
    return {key: (list(value), time) for key, (value, time) in rows.items()}


class StoreMachine(RuleBasedStateMachine):
    """The model: what the store holds after the last commit, what the one under way makes of it, what processing sees."""

    persistent: ClassVar[bool]
    root: ClassVar[Path]
    """Belongs to the test, which removes it whatever happens to an example."""

    @initialize(cache_bytes=st.sampled_from([0, 2_000, 1_000_000]))
    def open(self, cache_bytes: int) -> None:
        self.directory = Path(tempfile.mkdtemp(dir=self.root))
        self.cache_bytes = cache_bytes
        self.committed: Rows = {}
        self.current: Rows = {}
        self.offset: int | None = None
        self.staged: Rows | None = None
        self.store = self._open()

    def _open(self) -> KeyValueStore:
        spec = StoreSpec("model", value=LIST, persistent=self.persistent)
        return open_store(spec, self.directory / "model", StateResources(cache_bytes=self.cache_bytes))

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.directory)

    @rule(
        changes=st.lists(
            st.tuples(st.sampled_from(["append", "put", "delete", "look"]), KEYS, NUMBERS, TIMES),
            min_size=1,
            max_size=8,
        ),
        then=st.sampled_from(
            [[], ["stage"], ["stage", "commit"], ["stage", "commit"], ["abort"], ["stage", "abort"], ["stage_more"]]
        ),
        looks=st.sets(KEYS, max_size=3),
        others=st.lists(OPTIONAL_KEYS, max_size=3),
    )
    def process(
        self,
        changes: list[tuple[str, bytes, int, int]],
        then: list[str],
        looks: set[bytes],
        others: list[bytes | None],
    ) -> None:
        self.store.prefetch([*(key for _, key, _, _ in changes), *others])
        for change, key, number, time in changes:
            getattr(self, f"_{change}")(key, number, time)
        for step in then:
            if step == "stage" and self.staged is not None:
                self.commit()
            getattr(self, step)()
        for key in looks:
            assert self.store.peek(key) == self.current.get(key)
            assert self.store.get(key) == self.current.get(key, (None,))[0]

    def _append(self, key: bytes, number: int, time: int) -> None:
        entry = self.store.dirty.get(key) or self.store.load(key)
        if key in self.current:
            assert entry[:2] == list(self.current[key])
            entry[0].append(number)
        else:
            assert entry[0] is None
            entry[0] = [number]
        entry[1] = time
        self.current[key] = (list(entry[0]), time)

    def _look(self, key: bytes, _number: int, _time: int) -> None:
        if key not in self.store.dirty:
            self.store.load(key)

    def _put(self, key: bytes, number: int, time: int) -> None:
        self.store.put(key, [number], time)
        self.current[key] = ([number], time)

    def _delete(self, key: bytes, _number: int, time: int) -> None:
        self.store.delete(key, time)
        self.current.pop(key, None)

    @rule(start=OPTIONAL_KEYS, end=OPTIONAL_KEYS, backwards=st.booleans())
    def scan(self, start: bytes | None, end: bytes | None, backwards: bool) -> None:
        expected = [
            (key, *self.current[key])
            for key in sorted(self.current, reverse=backwards)
            if (start is None or key >= start) and (end is None or key < end)
        ]
        assert list(self.store.range(start, end, backwards=backwards)) == expected
        prefix = start or b""
        expected = [(key, *self.current[key]) for key in sorted(self.current) if key.startswith(prefix)]
        assert list(self.store.prefix(prefix)) == expected

    def stage(self) -> None:
        rows = self.stage_more()
        assert len({key for key, _, _ in rows}) == len(rows)

    def stage_more(self) -> list[Row]:
        """Also while a commit is under way that some of it was staged for before."""
        rows = self.store.stage()
        self.staged = _copy(self.current)
        after = dict(self.committed)
        for key, value, time in rows:
            if value is None:
                after.pop(key, None)
            else:
                after[key] = (LIST.decode(value), time)
        assert after == self.current, "the changelog must lead to the same state"
        return rows

    def commit(self) -> None:
        self.offset = (self.offset or 0) + 1
        self.store.commit(self.offset)
        assert self.staged is not None
        self.committed, self.staged = self.staged, None

    @precondition(lambda self: self.staged is not None)
    @rule()
    def commit_what_is_staged(self) -> None:
        self.commit()

    @precondition(lambda self: self.store.dirty or self.staged is not None)
    @rule()
    def abort(self) -> None:
        self.store.abort()
        self.staged = None
        self.current = _copy(self.committed)

    @precondition(lambda self: self.staged is None and not self.store.dirty)
    @rule(records=st.lists(st.tuples(KEYS, st.none() | NUMBERS, TIMES), max_size=8))
    def restore(self, records: list[tuple[bytes, int | None, int]]) -> None:
        self.offset = (self.offset or 0) + len(records)
        values = [None if number is None else LIST.encode([number]) for _, number, _ in records]
        self.store.restore([key for key, _, _ in records], values, [time for _, _, time in records], self.offset)
        for key, number, time in records:
            if number is None:
                self.current.pop(key, None)
            else:
                self.current[key] = ([number], time)
        self.committed = dict(self.current)

    @rule(again=st.booleans())
    def flush_or_reopen(self, again: bool) -> None:
        if not again or not self.persistent:
            self.store.flush()
            return
        self.store.close()
        self.store = self._open()
        self.staged = None
        self.current = _copy(self.committed)

    @invariant()
    def offset_is_as_committed(self) -> None:
        assert self.store.changelog_offset == self.offset

    @invariant()
    def queries_see_what_is_committed(self) -> None:
        for key in ALL_KEYS:
            assert self.store.peek_committed(key) == self.committed.get(key)

    @invariant()
    def absent_entries_have_no_timestamp(self) -> None:
        if not self.store.dirty and self.staged is None:
            cached = self.store._cached.values()
            assert all(entry[1] == NO_TIMESTAMP for entry in cached if entry[0] is None)


@pytest.mark.parametrize("persistent", [True, False], ids=["rocksdb", "memory"])
def test_a_store_does_what_a_dict_does(persistent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With passes that are due often and take several commits."""
    monkeypatch.setattr(write_behind, "REPLAY_RECORDS_MAX", 3)
    monkeypatch.setattr(write_behind, "PASS_ENTRIES_MIN", 1)
    machine = type("Machine", (StoreMachine,), {"persistent": persistent, "root": tmp_path})
    case = machine.TestCase()
    case.settings = settings(max_examples=15 if persistent else 60, stateful_step_count=40, deadline=None)
    case.runTest()
