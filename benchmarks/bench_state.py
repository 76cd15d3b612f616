"""How fast the state room is: counting into a store and committing, reading, restoring.

    python -m benchmarks.bench_state [--records N] [--keys N] [--rounds N]

Times are processor time of the calling thread, so that they can be compared on a machine that is busy with other things;
RocksDB's own threads are not in them.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from state import Codec, KeyValueStore, StateResources, StoreSpec, open_store

MIB = 1024 * 1024
SPEC = StoreSpec("counts", value=Codec(lambda value: b"%d" % value, int))
FIRST_ROUNDS = 2
"""Rounds that are not counted: the store is empty in the first."""
START_MS = 1_700_000_000_000
STATE_BYTES = 200
BATCH_KEYS = 500
BATCHES = 100


def keys_of(count: int) -> list[bytes]:
    chance = random.Random(7)
    return [chance.randbytes(16) for _ in range(count)]


def arrivals(keys: Sequence[bytes], count: int, seed: int) -> list[bytes]:
    """Keys of `count` records in random order; new objects each, as a consumer gives them, so that none is hashed yet."""
    return [bytes(memoryview(key)) for key in random.Random(seed).choices(keys, k=count)]


def seconds(action: Callable[..., object], *arguments: Any) -> float:
    start = time.thread_time()
    action(*arguments)
    return time.thread_time() - start


@contextmanager
def a_store(resources: StateResources, spec: StoreSpec = SPEC) -> Any:
    with tempfile.TemporaryDirectory() as directory:
        store = open_store(spec, Path(directory) / "store", resources)
        yield store
        store.close()


def count_into(store: KeyValueStore, keys: Sequence[bytes], times_ms: Sequence[int]) -> None:
    """What generated code does for `groupByKey().count()`."""
    dirty, load = store.dirty, store.load
    for key, time_ms in zip(keys, times_ms, strict=True):
        try:
            entry = dirty[key]
        except KeyError:
            entry = load(key)
        count = entry[0]
        if count is None:
            entry[0] = 1
            entry[1] = time_ms
        else:
            entry[0] = count + 1
            if time_ms > entry[1]:  # noqa: PLR1730  # max() costs a call
                entry[1] = time_ms


def count_into_a_dict(counts: dict[bytes, int], keys: Sequence[bytes]) -> None:
    """The least that counting can cost, for comparison."""
    for key in keys:
        counts[key] = counts.get(key, 0) + 1


def bench_counting(title: str, records: int, keys: Sequence[bytes], rounds: int, cache_bytes: int) -> None:
    parts: dict[str, list[float]] = {"dict": [], "count": [], "stage": [], "commit": []}
    counts: dict[bytes, int] = {}
    with a_store(StateResources(cache_bytes=cache_bytes)) as store:
        offset = 0
        for number in range(rounds):
            parts["dict"].append(seconds(count_into_a_dict, counts, arrivals(keys, records, number)))
            start_ms = START_MS + number * records
            arrived = arrivals(keys, records, number)
            parts["count"].append(seconds(count_into, store, arrived, range(start_ms, start_ms + records)))
            parts["stage"].append(seconds(store.stage))
            offset += len(store.dirty)
            parts["commit"].append(seconds(store.commit, offset))
    mean = {name: statistics.mean(values[FIRST_ROUNDS:]) / records * 1e9 for name, values in parts.items()}
    plain = mean.pop("dict")
    total = sum(mean.values())
    detail = ", ".join(f"{name} {value:.0f}" for name, value in mean.items())
    longest_ms = max(parts["commit"]) * 1e3
    print(
        f"{title:42s} {total:6.0f} ns/record ({detail}; a plain dict {plain:.0f}), {1e3 / total:.2f} M/s, "
        f"longest commit {longest_ms:.0f} ms"
    )


def bench_restore(records: int, keys: Sequence[bytes], batch: int) -> None:
    arrived = arrivals(keys, records, 1)
    values: list[bytes | None] = [b"%d" % number for number in range(records)]
    times_ms = range(START_MS, START_MS + records)
    with a_store(StateResources()) as store:

        def restore() -> None:
            for start in range(0, records, batch):
                end = min(start + batch, records)
                store.restore(arrived[start:end], values[start:end], times_ms[start:end], end)

        began = time.perf_counter()
        took = seconds(restore)
        wall = time.perf_counter() - began
    title = f"restore {records:,} records of {len(keys):,} keys"
    print(
        f"{title:42s} {took / records * 1e9:6.0f} ns/record, {records / took / 1e6:.2f} M/s (by the clock {wall:.1f} s)"
    )


def bench_reading(keys: Sequence[bytes]) -> None:
    def load_all(store: KeyValueStore, wanted: Sequence[bytes]) -> None:
        for key in wanted:
            store.load(key)

    shuffled = random.Random(3).sample(keys, len(keys))
    with a_store(StateResources()) as store:
        store.restore(keys, [b"1"] * len(keys), [START_MS] * len(keys), 1)
        store.flush()
        cold = seconds(load_all, store, shuffled) / len(keys) * 1e9
        store.stage()
        store.commit(2)
        warm = seconds(load_all, store, shuffled) / len(keys) * 1e9
        store.abort()
        scan = seconds(lambda: sum(1 for _ in store.all())) / len(keys) * 1e9
    print(f"{'load: one of ' + format(len(keys), ',') + ' keys':42s} {warm:6.0f} ns cached, {cold:.0f} ns from RocksDB")
    print(f"{'scan':42s} {scan:6.0f} ns/key")


def bench_reading_together(count: int) -> None:
    """Batches of random keys of a state much larger than the cache, with a commit after each, as processing reads them."""
    keys, chance = keys_of(count), random.Random(3)
    values = [bytes(STATE_BYTES)] * BATCH_KEYS
    times: dict[bool, list[float]] = {False: [], True: []}
    with a_store(StateResources(cache_bytes=MIB), StoreSpec("states")) as store:
        for start in range(0, count, BATCH_KEYS):
            some = keys[start : start + BATCH_KEYS]
            store.restore(some, values[: len(some)], [START_MS] * len(some), start + len(some))
        store.flush()

        def process(batch: Sequence[bytes], together: bool) -> None:
            if together:
                store.prefetch(batch)
            for key in batch:
                if key not in store.dirty:
                    store.load(key)

        for number in range(BATCHES):
            together = number % 2 > 0
            times[together].append(seconds(process, chance.choices(keys, k=BATCH_KEYS), together))
            store.stage()
            store.commit(None)
    alone, joint = (statistics.median(times[together]) / BATCH_KEYS * 1e9 for together in (False, True))
    title = f"read {BATCH_KEYS} of {count:,} keys of {STATE_BYTES} bytes"
    print(f"{title:42s} {alone:6.0f} ns/key one by one, {joint:.0f} ns together")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000, help="records per commit")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=14, help="commits")
    arguments = parser.parse_args()
    keys = keys_of(arguments.keys)
    gc.freeze()
    for title, cache_bytes in (
        ("counting, 64 MiB of cache", 64 * MIB),
        ("counting, 8 MiB of cache", 8 * MIB),
        ("counting, no cache", 0),
    ):
        bench_counting(title, arguments.records, keys, arguments.rounds, cache_bytes)
    bench_reading(keys)
    bench_reading_together(1_000_000)
    bench_restore(2_000_000, keys, 10_000)
    bench_restore(2_000_000, keys_of(2_000_000), 10_000)


if __name__ == "__main__":
    main()
