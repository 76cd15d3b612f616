"""A store as a user's processor sees it: decoded keys and values, and the record's timestamp on what it writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from kstreams_worker.topology.serdes import Serde

if TYPE_CHECKING:
    from state.store import KeyValueStore


class Timed(Protocol):
    """Says which timestamp a write gets."""

    timestamp_ms: int


class StoreView:
    """Keys in, values out. Stores of tables can only be read: their own step would not see other writes.

    Values must not be changed in place; put() the changed value. Ranges go by the order of the encoded keys.
    """

    __slots__ = ("_decode", "_encode", "_store", "_writes_as")

    def __init__(self, store: KeyValueStore, key: Serde, writes_as: Timed | None) -> None:
        self._store = store
        self._encode = key.encode
        self._decode = key.decode
        self._writes_as = writes_as

    @property
    def name(self) -> str:
        return self._store.spec.name

    def get(self, key: Any) -> Any:
        """The key's value, or None."""
        return self._store.get(self._encode(key))

    def get_with_timestamp(self, key: Any) -> tuple[Any, int] | None:
        """`(value, timestamp_ms)`, or None."""
        return self._store.peek(self._encode(key))

    def put(self, key: Any, value: Any) -> None:
        """Sets the key's value, as of the current record's timestamp; None deletes the key."""
        self._store.put(self._encode(key), value, self._write_time_ms())

    def delete(self, key: Any) -> None:
        """Deletes the key, if it is there."""
        self._store.delete(self._encode(key), self._write_time_ms())

    def range(self, start: Any = None, end: Any = None, *, backwards: bool = False) -> Iterator[tuple[Any, Any]]:
        """`(key, value)` of the keys from `start` (None: the first) up to, not including, `end` (None: to the last)."""
        first = None if start is None else self._encode(start)
        last = None if end is None else self._encode(end)
        for raw_key, value, _ in self._store.range(first, last, backwards=backwards):
            yield self._decode(raw_key), value

    def all(self) -> Iterator[tuple[Any, Any]]:
        """`(key, value)` of all keys."""
        return self.range()

    def approximate_num_entries(self) -> int:
        """About how many keys there are."""
        return self._store.approximate_num_entries()

    def _write_time_ms(self) -> int:
        if self._writes_as is None:
            raise TypeError(f"the store {self.name!r} belongs to a table: a processor can only read it")
        return self._writes_as.timestamp_ms
