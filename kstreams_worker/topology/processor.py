"""Processors: a user's own step, with stores, the record's place in its topic, and calls by stream time.

A processor runs in its task's loop, on one thread; nothing in it needs a lock.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import length_hint
from typing import Any

from kstreams_worker.topology.records import Headers, RecordBatch
from kstreams_worker.topology.store_view import StoreView

Forward = Callable[[Any, Any, int], None]


class Processor:
    """Base for processor classes given to KStream.process(). Each task makes its own instance."""

    context: ProcessorContext

    def init(self, context: ProcessorContext) -> None:
        """Called once, before the first record. Stores are open. Overriding methods call this one first."""
        self.context = context

    def process(self, key: Any, value: Any) -> None:
        """Called for each record."""
        raise NotImplementedError(f"{type(self).__name__} has no process(key, value)")

    def close(self) -> None:
        """Called when the task is given up; not after a crash."""


class Cursor:
    """Where in its batch the task is. Reading it costs; keeping it costs nothing per record."""

    __slots__ = ("_batch", "_kept", "_length", "_position")

    def __init__(self) -> None:
        self._batch: RecordBatch | None = None
        self._position: Any = None
        self._length = 0
        self._kept: list[int] | None = None

    def enter(self, batch: RecordBatch, position: Any, kept: list[int] | None) -> None:
        """Starts on a batch. `position` is the iterator that the loop takes records from; `kept` as in decode_each()."""
        self._batch = batch
        self._position = position
        self._length = length_hint(position)
        self._kept = kept

    def leave(self) -> None:
        self._batch = self._position = None

    @property
    def batch(self) -> RecordBatch | None:
        return self._batch

    @property
    def index(self) -> int:
        """The current record's index in the batch."""
        index = self._length - length_hint(self._position) - 1
        return index if self._kept is None else self._kept[index]


class ProcessorContext:
    """What a processor knows and can do. The record's place is None while a table is forwarded or a timer runs."""

    __slots__ = ("_clock", "_cursor", "_forward", "_stores", "timestamp_ms")

    def __init__(self, forward: Forward | None, cursor: Cursor, clock: StreamClock) -> None:
        self.timestamp_ms = -1
        """Of the current record; in a timer's call the stream time."""
        self._stores: dict[str, StoreView] = {}
        self._forward = forward
        self._cursor = cursor
        self._clock = clock

    def forward(self, key: Any, value: Any, timestamp_ms: int | None = None) -> None:
        """Passes a record on to the steps after this one, with the current record's timestamp unless one is given."""
        if self._forward is not None:
            self._forward(key, value, self.timestamp_ms if timestamp_ms is None else timestamp_ms)

    def add_store(self, name: str, view: StoreView) -> None:
        """Called while the task is bound, not by processors."""
        self._stores[name] = view

    def store(self, name: str) -> StoreView:
        """A store that process(..., stores=[...]) named; KeyError otherwise."""
        try:
            return self._stores[name]
        except KeyError:
            named = ", ".join(self._stores) or "none"
            raise KeyError(f"process() was not given the store {name!r}, only: {named}") from None

    def schedule(self, interval_ms: int, callback: Callable[[int], object]) -> Callable[[], None]:
        """Calls `callback(stream_time_ms)` each time stream time (the largest timestamp seen) passes a multiple of
        `interval_ms`: first at the first record, then at most once per record. Returns a function that ends it."""
        return self._clock.schedule(self, interval_ms, callback)

    @property
    def topic(self) -> str | None:
        return self._cursor.batch.topic if self._cursor.batch else None

    @property
    def partition(self) -> int | None:
        return self._cursor.batch.partition if self._cursor.batch else None

    @property
    def offset(self) -> int | None:
        return self._cursor.batch.offsets[self._cursor.index] if self._cursor.batch else None

    @property
    def headers(self) -> Headers:
        batch = self._cursor.batch
        return batch.headers(self._cursor.index) if batch and batch.headers else []


class StreamClock:
    """Timers by stream time. `due` is the earliest time at which one is; the loop compares each timestamp with it."""

    __slots__ = ("_timers", "due")

    NEVER = 1 << 63

    def __init__(self) -> None:
        self.due = self.NEVER
        self._timers: list[_Timer] = []

    def schedule(
        self, context: ProcessorContext, interval_ms: int, callback: Callable[[int], object]
    ) -> Callable[[], None]:
        if interval_ms < 1:
            raise ValueError(f"a timer's interval is at least 1 ms, got {interval_ms}")
        timer = _Timer(context, interval_ms, callback)
        self._timers.append(timer)
        self.due = min(self.due, timer.due)

        def cancel() -> None:
            if timer in self._timers:
                self._timers.remove(timer)

        return cancel

    def advance(self, stream_time_ms: int) -> None:
        """Runs each timer that is due, once, and moves it to its next multiple."""
        for timer in list(self._timers):
            if timer.due <= stream_time_ms and timer in self._timers:
                timer.due = (stream_time_ms // timer.interval_ms + 1) * timer.interval_ms
                timer.context.timestamp_ms = stream_time_ms
                timer.callback(stream_time_ms)
        self.due = min((timer.due for timer in self._timers), default=self.NEVER)


class _Timer:
    __slots__ = ("callback", "context", "due", "interval_ms")

    def __init__(self, context: ProcessorContext, interval_ms: int, callback: Callable[[int], object]) -> None:
        self.context = context
        self.interval_ms = interval_ms
        self.callback = callback
        self.due = 0
