"""What the compiled chain costs per record, beyond decoding its values.

python -m benchmarks.bench_chain [--records N] [--keys N] [--rounds N]

Each chain runs in a task program with in-memory stores, in batches so short that other work on the machine seldom falls
into one. Printed is the best batch of all rounds, and the best flush per row it makes. Commits of the stores are not in
it. `decode` is orjson alone on the same batch, for comparison with other machines.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from kstreams_worker import StreamsBuilder, Topology
from kstreams_worker.topology.compile import compile_subtopology
from kstreams_worker.topology.records import RecordBatch
from state.memory import MemoryBackend
from state.resources import StateResources
from state.store import KeyValueStore

BATCH_RECORDS = 1_000


def counting(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value="json").group_by_key().count(materialized="counts").to_stream().to("out")


def summing(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in", key=str, value="json").group_by_key()
    sums = grouped.aggregate(int, lambda key, order, total: total + order["amount"], value=int, materialized="sums")
    sums.to_stream().to("out")


def filtering(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value="json").filter(lambda key, order: order["amount"] > 5000).to("out")


def mapping(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value="json")
    stream.map_values(lambda order: order["amount"]).filter(lambda key, amount: amount > 5000).to("out")


def regrouping(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value="json")
    stream.group_by(lambda key, order: order["product"], key=str).count(materialized="counts").to_stream().to("out")


def orders() -> Topology:
    from examples.orders import topology  # noqa: PLC0415 - only this one needs it

    return topology


CHAINS: dict[str, Callable[[StreamsBuilder], None]] = {
    "count per key": counting,
    "aggregate per key": summing,
    "filter, half pass": filtering,
    "map_values, filter": mapping,
    "group_by, to the repartition topic": regrouping,
}


def batches(topic: str, records: int, key_count: int) -> list[RecordBatch]:
    """Orders by random customers. Key objects are new for each record, as a consumer gives them, so none is hashed yet."""
    chance = random.Random(7)
    made = []
    for first in range(0, records, BATCH_RECORDS):
        count = min(BATCH_RECORDS, records - first)
        keys: list[bytes | None] = [b"customer-%d" % chance.randrange(key_count) for _ in range(count)]
        values: list[bytes | None] = [
            orjson.dumps(
                {
                    "order_id": first + index,
                    "customer": key.decode() if key else "",
                    "product": f"product-{chance.randrange(1000)}",
                    "amount": chance.randrange(10_000),
                    "event_time_ms": 1_700_000_000_000 + first + index,
                }
            )
            for index, key in enumerate(keys)
        ]
        times = [1_700_000_000_000 + first + index for index in range(count)]
        made.append(RecordBatch(topic, 0, keys, values, times, range(first, first + count)))
    return made


@dataclass(slots=True)
class Best:
    """Nanoseconds per record, and per row flushed, of the fastest batch and flush."""

    decode: float = math.inf
    process: float = math.inf
    flush: float = math.inf

    @property
    def beyond_decoding(self) -> float:
        return self.process - self.decode


def seconds(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def measure(topology: Topology, cached: bool, options: argparse.Namespace) -> Best:
    sub = topology.subtopologies[0]
    stores = {spec.name: KeyValueStore(spec, MemoryBackend(), StateResources()) for spec in sub.stores}
    program = compile_subtopology(sub, "bench", cached=cached).bind(stores, lambda *_: None)
    best = Best()
    for _ in range(options.rounds):
        for batch in batches(sub.source_topics[0], options.records, options.keys):
            scale = 1e9 / len(batch)
            best.decode = min(best.decode, scale * seconds(lambda: list(map(orjson.loads, batch.values))))  # noqa: B023
            best.process = min(best.process, scale * seconds(lambda: program.process(batch)))  # noqa: B023
            program.take_outputs()
        flush_s = seconds(program.flush)
        rows = sum(map(len, program.take_outputs().values()))
        best.flush = min(best.flush, flush_s / rows * 1e9) if rows else 0.0
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    topologies = {}
    for title, program in CHAINS.items():
        builder = StreamsBuilder()
        program(builder)
        topologies[title] = builder.build()
    topologies["the orders example, its first part"] = orders()
    print(f"{options.keys} keys; nanoseconds per record, and per row that flush makes")
    for title, topology in topologies.items():
        cached, at_once = measure(topology, True, options), measure(topology, False, options)
        print(
            f"{title:36s} decode {cached.decode:5.0f}; beyond that, cached {cached.beyond_decoding:5.0f} "
            f"and {cached.flush:4.0f} a row; forwarded at once {at_once.beyond_decoding:5.0f}"
        )


if __name__ == "__main__":
    main()
