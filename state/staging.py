"""The commit that is under way in a store: the entries that were staged for it, and their rows.

Staging is the one time that a commit goes over its entries: it makes each one's row and leaves it there. By the time the
commit is known to be done, half a second later, they have long left the processor's caches, and to go over them once more
would cost as much again. So what a row has replaced is kept here, for the rarer case that the commit fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from state.backend import Row
from state.format import NO_TIMESTAMP
from state.key_order import KeyOrder

Entry = list[Any]
"""`[value, timestamp_ms, row]`. The first two are for processing to read and change: the decoded value (None: the key is
absent) and its record's timestamp (`NO_TIMESTAMP`: absent or unknown). The third is the store's own: the state as the backend
will get it, staged or committed; None if the backend has it."""


class Staging:
    """Owned by the store's thread; only `committed_row` may be called from others."""

    __slots__ = ("_deleted", "_newly_unwritten", "_replaced", "entries", "order", "rows")

    def __init__(self) -> None:
        self.entries: dict[bytes, Entry] = {}
        """Entries by key, in the order in which they were staged first; always the same dict."""
        self.order = KeyOrder(self.entries)
        self.rows: list[Row] | None = None
        """The rows of the commit, oldest first; a key that was staged twice has two. None: nothing was staged."""
        self._replaced: list[Row | None] = []
        """What the entry of each of `rows` held before."""
        self._newly_unwritten: list[Entry] = []
        """Entries that the backend knew before they were staged."""
        self._deleted: list[bytes] = []

    def add(self, dirty: dict[bytes, Entry], encode: Callable[[Any], bytes]) -> None:
        """Make the rows of these entries. One that is absent and was not set gets none.

        Raises what `encode` raises; then nothing of this call is staged.
        """
        was_staged = self.rows is not None
        rows = self.rows if self.rows is not None else []
        before_rows, before_newly, before_deleted = len(rows), len(self._newly_unwritten), len(self._deleted)
        self.rows = rows
        add_row, add_replaced, add_newly = rows.append, self._replaced.append, self._newly_unwritten.append
        try:
            for key, entry in dirty.items():
                value, timestamp_ms, replaced = entry
                if value is not None:
                    row: Row = (key, encode(value), timestamp_ms)
                elif timestamp_ms != NO_TIMESTAMP:
                    row = (key, None, timestamp_ms)
                    self._deleted.append(key)
                else:
                    continue
                add_replaced(replaced)
                add_row(row)  # before the entry has it: see `committed_row`
                entry[2] = row
                if replaced is None:
                    add_newly(entry)
        except BaseException:
            for row, replaced in zip(rows[before_rows:], self._replaced[before_rows:], strict=True):
                dirty[row[0]][2] = replaced
            del rows[before_rows:], self._replaced[before_rows:]
            del self._newly_unwritten[before_newly:], self._deleted[before_deleted:]
            if not was_staged:
                self.rows = None
            raise
        self.entries.update(dirty)

    def finish(self, dirty: dict[bytes, Entry]) -> list[Entry]:
        """The commit is done. Returns the entries that the backend has to get now and had not to before.

        `dirty` is what was set since: a deleted key that is in there is not absent, even if it is None again.
        """
        for key in self._deleted:
            entry = self.entries[key]
            if entry[0] is None and key not in dirty:
                entry[1] = NO_TIMESTAMP
        newly_unwritten = self._newly_unwritten
        self._forget()
        return newly_unwritten

    def undo(self) -> None:
        """Nothing was staged: the entries hold what they held before."""
        self._put_aside()
        self._forget()

    def _forget(self) -> None:
        self.rows, self._replaced, self._newly_unwritten, self._deleted = None, [], [], []
        self.entries.clear()
        self.order.reset()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Meanwhile the entries hold what is committed; the backend may get it."""
        self._put_aside()
        try:
            yield
        finally:
            self._put_back()

    def _put_aside(self) -> None:
        for row, replaced in zip(reversed(self.rows or ()), reversed(self._replaced), strict=True):
            self.entries[row[0]][2] = replaced

    def _put_back(self) -> None:
        replaced: list[Row | None] = []
        newly_unwritten = []
        for row in self.rows or ():
            entry = self.entries[row[0]]
            replaced.append(entry[2])
            if entry[2] is None:
                newly_unwritten.append(entry)
            entry[2] = row
        self._replaced, self._newly_unwritten = replaced, newly_unwritten

    def committed_row(self, entry: Entry) -> Row | None:
        """What the entry holds when the commit under way is left out. From any thread."""
        while True:
            row: Row | None = entry[2]
            rows = self.rows
            committed = row if row is None or rows is None else self._before(row, rows)
            if entry[2] is row:  # if it is not, a commit began or ended in between
                return committed

    def _before(self, row: Row, rows: list[Row]) -> Row | None:
        """What the first of these rows that has the key of `row` has replaced; `row` if none has: it is committed then."""
        return next(
            (replaced for other, replaced in zip(rows, self._replaced, strict=False) if other[0] == row[0]), row
        )
