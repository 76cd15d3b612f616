"""The keys of a growing dict in order, for scans: costs nothing until the first scan, and little after it."""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import islice
from typing import Any

_INSERT_SINGLY_BELOW = 16
"""Up to here new keys are put into the sorted list one by one; above it one sort of the nearly sorted list is cheaper."""


class KeyOrder:
    """A sorted list of a dict's keys, brought up to date at each use.

    It relies on how dicts keep insertion order: between two calls of `reset` keys may be added to the dict but not
    removed, so the keys it has not seen yet are the dict's last ones. Owned by one thread.
    """

    __slots__ = ("_entries", "_sorted")

    def __init__(self, entries: dict[bytes, Any]) -> None:
        self._entries = entries
        self._sorted: list[bytes] = []

    def reset(self) -> None:
        """To be called when keys were removed from the dict."""
        self._sorted = []

    def between(self, start: bytes | None, end: bytes | None) -> list[bytes]:
        """The keys from `start` (None: the first) up to, not including, `end` (None: after the last)."""
        ordered = self._sorted
        fresh = len(self._entries) - len(ordered)
        if fresh:
            newest = islice(reversed(self._entries), fresh)
            if fresh < _INSERT_SINGLY_BELOW:
                for key in newest:
                    insort(ordered, key)
            else:
                ordered.extend(newest)
                ordered.sort()
        low = 0 if start is None else bisect_left(ordered, start)
        high = len(ordered) if end is None else bisect_left(ordered, end)
        return ordered[low:high]
