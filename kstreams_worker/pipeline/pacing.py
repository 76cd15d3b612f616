"""When each record is due, and how Spark keeps to it.

Records are written in windows of a second or some, each one Spark job. Within a window the tasks themselves wait until
a record is due, every few milliseconds: that is smooth, and costs one job's planning a window (about half a second of a
processor) where a job for each small batch would cost many. The next window's job is started while the current one runs,
and waits in its first record.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

WINDOW_S = 1.0
UNPACED_WINDOW_RECORDS = 250_000
"""Without a rate: large enough to hide a job's start, small enough to stop within seconds."""

# A task makes and writes about twice as many on one processor.
_RECORDS_PER_TASK_AND_SECOND = 50_000
_WAITS_PER_SECOND = 200


@dataclass(frozen=True, slots=True)
class Window:
    """Records `first` to `first + count - 1`; with a rate, the first is due `due_s` after the start."""

    first: int
    count: int
    due_s: float


def windows(first: int, records: int | None, rate: float | None, window_s: float = WINDOW_S) -> Iterator[Window]:
    """All windows in order, of `records` records (None: for ever) from `first` on, at `rate` a second (None: at once)."""
    end = None if records is None else first + records
    for number in itertools.count():
        if rate is None:
            start, stop = number * UNPACED_WINDOW_RECORDS, (number + 1) * UNPACED_WINDOW_RECORDS
        else:
            start, stop = math.floor(number * window_s * rate), math.floor((number + 1) * window_s * rate)
        start, stop = first + start, first + stop
        if end is not None:
            if start >= end:
                return
            stop = min(stop, end)
        if stop > start:
            yield Window(start, stop - start, 0.0 if rate is None else (start - first) / rate)


def tasks_per_window(rate: float) -> int:
    """Tasks that together keep up with `rate` records a second."""
    return max(1, math.ceil(rate / _RECORDS_PER_TASK_AND_SECOND))


def paced(records: DataFrame, first: int, tasks: int, rate: float, due_ms: float) -> DataFrame:
    """The same records, handed on no sooner than due: `index` = `first` at `due_ms` (of the epoch), and so on at `rate`.

    The waiting is a call of Thread.sleep from a condition that always holds; reflect() is not deterministic to Spark,
    so it is neither left out nor moved.
    """
    records_per_wait = max(tasks, round(rate / _WAITS_PER_SECOND))
    position = fn.col("index") - fn.lit(first)
    now_ms = fn.call_function("reflect", fn.lit("java.lang.System"), fn.lit("currentTimeMillis")).cast("bigint")
    wait_ms = (fn.lit(due_ms) + position * fn.lit(1000.0 / rate)).cast("bigint") - now_ms
    sleep = fn.call_function(
        "reflect", fn.lit("java.lang.Thread"), fn.lit("sleep"), fn.greatest(wait_ms, fn.lit(0).cast("bigint"))
    )
    # One record of each task in every `records_per_wait`.
    waits = fn.pmod(position, fn.lit(records_per_wait)) < tasks
    # A method without a result gives "null", as text; should a later Spark give null itself, that must do as well.
    return records.where(fn.when(waits, fn.coalesce(sleep, fn.lit("null")) == "null").otherwise(True))
