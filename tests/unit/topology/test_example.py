"""The example that the README shows computes what it says."""

from __future__ import annotations

from examples.orders import topology
from kstreams_worker.testing.driver import TopologyTestDriver

ORDERS = [
    ("ann", {"order_id": 1, "customer": "ann", "product": "tea", "amount": 500}),
    ("bob", {"order_id": 2, "customer": "bob", "product": "urn", "amount": 12_000}),
    ("ann", {"order_id": 3, "customer": "ann", "product": "urn", "amount": 11_000}),
]


def test_the_orders_example() -> None:
    with TopologyTestDriver(topology, cached=True, partitions=3) as driver:
        driver.input_topic("orders").pipe_batch(ORDERS)
        driver.commit()
        large = driver.output_topic("large-orders").read_all()
        assert sorted((record.key, record.value["order_id"]) for record in large) == [("ann", 3), ("bob", 2)]
        assert driver.output_topic("customer-totals").read_latest() == {
            "ann": {"count": 2, "amount": 11_500},
            "bob": {"count": 1, "amount": 12_000},
        }
        assert driver.output_topic("product-revenue").read_latest() == {
            "tea": {"count": 1, "amount": 500},
            "urn": {"count": 2, "amount": 23_000},
        }
