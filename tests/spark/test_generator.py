"""Orders from a seed: the same ones always, and shaped as said."""

from collections import Counter

import orjson
import pytest
from pyspark.sql import SparkSession

from kstreams_worker.pipeline.generator import START_TIME_MS, GeneratedOrders, OrderShape

RECORDS = 5_000


def orders(
    spark: SparkSession, shape: OrderShape, first: int = 0, count: int = RECORDS, tasks: int = 2
) -> dict[int, tuple]:
    rows = GeneratedOrders(spark, shape).stretch(first, count, tasks).collect()
    assert len(rows) == len({row["index"] for row in rows}), "an index came twice"
    return {row["index"]: (row["key"], row["value"]) for row in rows}


@pytest.fixture(scope="module")
def made(spark: SparkSession) -> dict[int, tuple]:
    return orders(spark, OrderShape(seed=7))


@pytest.mark.parametrize("tasks", [1, 3])
def test_same_seed_makes_the_same_orders_on_any_number_of_tasks(
    spark: SparkSession, made: dict[int, tuple], tasks: int
) -> None:
    """Also when they are made in stretches."""
    parts = orders(spark, OrderShape(seed=7), 0, 1_234, tasks) | orders(
        spark, OrderShape(seed=7), 1_234, RECORDS - 1_234, tasks
    )
    assert parts == made


def test_orders_are_the_ones_they_were_in_every_release(made: dict[int, tuple]) -> None:
    """What a seed means may not change, or figures of different days could not be compared."""
    assert made[0] == (
        "customer-000224",
        '{"order_id":"7-000000000000","customer":"customer-000224","product":"product-000093",'
        '"amount":8503,"event_time_ms":1704067199692}',
    )


def test_other_seed_makes_other_orders(spark: SparkSession, made: dict[int, tuple]) -> None:
    """With ids of their own, so that two producers can share a topic."""
    other = orders(spark, OrderShape(seed=8), count=100)
    assert not {value for _, value in other.values()} & {value for _, value in made.values()}


def test_orders_are_whole(made: dict[int, tuple]) -> None:
    """Key and value agree, ids are unique, amounts are positive cents."""
    values = [orjson.loads(value) for _, value in made.values()]
    assert [order["customer"] for order in values] == [key for key, _ in made.values()]
    assert len({order["order_id"] for order in values}) == RECORDS
    assert all(isinstance(order["amount"], int) and order["amount"] > 0 for order in values)
    assert {tuple(order) for order in values} == {("order_id", "customer", "product", "amount", "event_time_ms")}


def test_customers_and_products_are_skewed(spark: SparkSession) -> None:
    """The first of ten gets about log(2)/log(11) = 29 % of the orders, the last about 4 %; nobody else gets any."""
    made = orders(spark, OrderShape(seed=1, customers=10, products=3), count=20_000)
    customers = Counter(key for key, _ in made.values())
    products = Counter(orjson.loads(value)["product"] for _, value in made.values())
    assert sorted(customers) == [f"customer-{number:06}" for number in range(1, 11)]
    assert sorted(products) == [f"product-{number:06}" for number in range(1, 4)]
    assert customers["customer-000001"] / 20_000 == pytest.approx(0.289, abs=0.02)
    assert customers["customer-000010"] / 20_000 == pytest.approx(0.040, abs=0.01)


def test_amounts_are_about_log_normal(made: dict[int, tuple]) -> None:
    """Half are below 20.00; about one in nineteen is above five times that."""
    amounts = sorted(orjson.loads(value)["amount"] for _, value in made.values())
    assert amounts[RECORDS // 2] == pytest.approx(2_000, rel=0.1)
    assert sum(amount > 10_000 for amount in amounts) / RECORDS == pytest.approx(0.054, abs=0.015)


def test_event_times_advance_with_bounded_disorder(spark: SparkSession) -> None:
    """Record n is at most the disorder behind n intervals, and never ahead."""
    made = orders(spark, OrderShape(seed=2, event_interval_ms=20, disorder_ms_max=300), count=2_000)
    delays = [START_TIME_MS + 20 * index - orjson.loads(value)["event_time_ms"] for index, (_, value) in made.items()]
    assert min(delays) >= 0
    assert 250 < max(delays) < 300
