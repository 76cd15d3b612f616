"""The example of the README end to end: a filter, totals by customer, and revenue by product through a repartition topic."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer
from harness.application import LONG_SESSION_MS
from harness.history import TopicReader
from harness.instances import Instance
from harness.waiting import until

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
PARTITIONS = 4
OUTPUTS = ("large-orders", "customer-totals", "product-revenue")
Row = tuple[bytes, dict[str, Any]]


def made_orders(count: int) -> list[Row]:
    """Orders by customer, the same each time."""
    rng = random.Random(7)
    return [
        (
            b"customer-%03d" % rng.randrange(200),
            {"order_id": number, "product": f"product-{rng.randrange(20)}", "amount": rng.randrange(1, 20_000)},
        )
        for number in range(count)
    ]


def totals(rows: list[tuple[bytes, int]]) -> dict[bytes, dict[str, int]]:
    """Number and sum by key."""
    found: dict[bytes, dict[str, int]] = defaultdict(lambda: {"count": 0, "amount": 0})
    for key, amount in rows:
        found[key]["count"] += 1
        found[key]["amount"] += amount
    return dict(found)


class Output:
    """One output topic, as it grows."""

    def __init__(self, servers: str, topic: str) -> None:
        self.reader = TopicReader(servers, topic, PARTITIONS)
        self.rows: list[Row] = []

    def read(self, *, to_end: bool = False) -> list[Row]:
        messages = self.reader.read_to_end() if to_end else self.reader.read()
        self.rows += [(message.key(), orjson.loads(message.value())) for message in messages]
        return self.rows

    def newest(self) -> dict[bytes, dict[str, int]]:
        return dict(self.read())

    def check_rising(self) -> None:
        """Exactly once: no total of a key comes twice or goes back."""
        counts: dict[bytes, list[int]] = defaultdict(list)
        for key, total in self.rows:
            counts[key].append(total["count"])
        assert all(earlier < later for numbers in counts.values() for earlier, later in pairwise(numbers))


def test_orders_are_totalled_exactly_once_while_instances_come_and_go(kafka: RunningKafka, tmp_path: Path) -> None:
    for topic in ("orders", *OUTPUTS):
        kafka.create_topic(topic, PARTITIONS)
    application_id = kafka.unique_name("orders")
    orders = made_orders(6_000)
    per_customer = totals([(key, order["amount"]) for key, order in orders])
    per_product = totals([(order["product"].encode(), order["amount"]) for _, order in orders])
    large = [row for row in orders if row[1]["amount"] >= 10_000]

    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2_random", "enable.idempotence": True}
    )

    def write(rows: list[Row]) -> None:
        for key, order in rows:
            producer.produce("orders", orjson.dumps(order), key)
        assert producer.flush(60) == 0

    settings = {
        "application.id": application_id,
        "bootstrap.servers": kafka.bootstrap_servers,
        "session.timeout.ms": LONG_SESSION_MS,
    }
    first, second = (
        Instance(name, "examples.orders:topology", settings, tmp_path, environment={}, cwd=ROOT)
        for name in ("first", "second")
    )
    outputs = {topic: Output(kafka.bootstrap_servers, topic) for topic in OUTPUTS}

    def explain() -> str:
        return first.describe() + second.describe()

    try:
        write(orders[:2_000])
        first.start()
        until(
            lambda: len(first.tasks()) == 2 * PARTITIONS, "one instance runs the tasks of both parts", explain=explain
        )
        second.start()
        until(lambda: len(first.tasks()) == len(second.tasks()) == PARTITIONS, "two share them", explain=explain)
        write(orders[2_000:4_000])
        assert first.close() == 0, first.describe()
        write(orders[4_000:])
        until(lambda: outputs["product-revenue"].newest() == per_product, "all products are totalled", explain=explain)
        until(
            lambda: outputs["customer-totals"].newest() == per_customer, "all customers are totalled", explain=explain
        )
        until(lambda: len(outputs["large-orders"].read()) >= len(large), "all large orders are there", explain=explain)
        assert second.close() == 0, second.describe()

        for output in outputs.values():
            output.read(to_end=True)
        assert outputs["product-revenue"].newest() == per_product
        assert outputs["customer-totals"].newest() == per_customer
        outputs["product-revenue"].check_rising()
        outputs["customer-totals"].check_rising()
        ids = Counter(order["order_id"] for _, order in outputs["large-orders"].rows)
        assert ids == Counter(order["order_id"] for _, order in large)
        assert all(row in orders for row in outputs["large-orders"].rows[:100])
    finally:
        first.kill()
        second.kill()
        for output in outputs.values():
            output.reader.close()
