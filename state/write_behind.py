"""What a store has committed and its backend does not have yet, and when the backend gets it.

Committed entries are written not at each commit but in passes, begun when `REPLAY_RECORDS_MAX` records are missing: that
spares most of the backend's work where the same keys change again and again, and the replay after a crash would be needed
anyhow, since RocksDB runs without its own log. A pass is spread over several commits, so that none takes long. Until it has
ended the backend's offset stays where it was: values newer than the offset do no harm, since a restore goes on to the
changelog's end before anybody reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from operator import itemgetter

from state.backend import Backend, Row
from state.staging import Entry

REPLAY_RECORDS_MAX = 500_000
"""With more committed changelog records missing from the backend a pass begins: about a second of replay after a crash."""
PASS_INTERVAL_S = 300.0
"""A pass begins after this long, too: what is replayed must not be so old that the changelog has dropped its tombstones."""
PASS_ENTRIES_MIN = 4_096
"""A pass writes this many entries at each commit (about 5 ms), or half as many as were committed if that is more."""
WRITE_ROWS_MAX = 1_000
"""Rows of one write, 1 to 3 ms in which RocksDB holds Python's global lock and stops other threads. What is more goes in
several, of which only the last has the new offset: after a crash in between some of the changelog is replayed in vain."""
SORT_ROWS_MAX = 8_192
"""Rows that are sorted at once, so that each write has a narrow range of keys, which is cheaper. Sorting holds that lock too:
some milliseconds."""

Rest = Callable[[float], object]
"""What is called between two parts of a long work, with the seconds that the last part took: it may wait."""

_row_of = itemgetter(2)
_key_of = itemgetter(0)


def no_rest(_worked_s: float) -> None:
    """Goes on at once."""


class WriteBehind:
    """Owned by the store's thread. Each method that writes raises StateError where the backend fails."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.restored: dict[bytes, Row] = {}
        """Rows from the changelog; always the same dict. They are older than all entries, and are written before them."""
        self.changelog_offset = backend.changelog_offset
        """The next changelog offset, for what is committed. None: the first."""
        self._written_offset = backend.changelog_offset
        self._unwritten: list[Entry] = []
        """Entries that the present pass leaves out; the backend may have got some of them since."""
        self._in_pass: list[Entry] = []
        """Those that the present pass has yet to write."""
        self._pass_offset: int | None = None
        self._next_pass = time.monotonic() + PASS_INTERVAL_S

    def __len__(self) -> int:
        """At most how many rows are missing."""
        return len(self.restored) + len(self._in_pass) + len(self._unwritten)

    def __bool__(self) -> bool:
        """Whether anything is missing, if only the offset."""
        return len(self) > 0 or self.changelog_offset != self._written_offset

    def add(self, entries: list[Entry]) -> None:
        """These have been committed, and the backend had them as they were."""
        self._unwritten += entries

    def go_on(self, committed: int) -> None:
        """After a commit of so many rows: begin a pass if it is time, or go on with the one that was begun."""
        if self._in_pass:
            self._go_on_with_pass(max(PASS_ENTRIES_MIN, committed // 2))
        elif self._is_pass_due():
            self._next_pass = time.monotonic() + PASS_INTERVAL_S
            self._in_pass, self._unwritten = self._unwritten, []
            self._pass_offset = self.changelog_offset
            self._go_on_with_pass(PASS_ENTRIES_MIN)

    def _is_pass_due(self) -> bool:
        missing = (self.changelog_offset or 0) - (self._written_offset or 0)
        return missing > REPLAY_RECORDS_MAX or (missing > 0 and time.monotonic() > self._next_pass)

    def _go_on_with_pass(self, entries_max: int) -> None:
        entries = self._in_pass[-entries_max:]
        is_last = len(entries) == len(self._in_pass)
        self._hand_over(entries, self._pass_offset if is_last else self._written_offset)
        del self._in_pass[-entries_max:]
        if is_last:
            self._backend.flush(wait=False)

    def write(self, entries: list[Entry]) -> None:
        """Write these now, out of their turn, and what was restored."""
        self._hand_over(entries, self._written_offset)

    def write_all(self, rest: Rest = no_rest) -> None:
        """Write everything, and the offset. `rest` is called between two writes."""
        self._hand_over(self._in_pass + self._unwritten, self.changelog_offset, rest)
        self._in_pass.clear()
        self._unwritten.clear()

    def _hand_over(self, entries: list[Entry], changelog_offset: int | None, rest: Rest = no_rest) -> None:
        unwritten = [entry for entry in entries if entry[2] is not None]
        if unwritten or self.restored or changelog_offset != self._written_offset:
            part: list[Row] = []
            for following in _parts([*self.restored.values(), *map(_row_of, unwritten)]):
                if part:
                    started = time.monotonic()
                    self._backend.write(part, self._written_offset)
                    rest(time.monotonic() - started)
                part = following
            self._backend.write(part, changelog_offset)
        self.restored.clear()
        self._written_offset = changelog_offset
        for entry in unwritten:
            entry[2] = None


def _parts(rows: list[Row]) -> Iterator[list[Row]]:
    """The rows in parts that can be written at once; of a key's rows the last stays last."""
    for start in range(0, len(rows), SORT_ROWS_MAX):
        block = sorted(rows[start : start + SORT_ROWS_MAX], key=_key_of)
        for position in range(0, len(block), WRITE_ROWS_MAX):
            yield block[position : position + WRITE_ROWS_MAX]
