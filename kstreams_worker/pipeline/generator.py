"""Orders made up from a seed. Record n depends on the seed, n and the shape alone: not on the number of tasks or machines.

Each random quantity is a hash of (seed, n, which quantity), so any stretch can be made anywhere, in Spark's own
expressions. Customers and products are skewed by Zipf's law (about 1 : 1/2 : 1/3 ...), amounts are close to log-normal,
event times advance evenly with a bounded disorder.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from kstreams_worker.errors import UsageError

# 2024-01-01T00:00:00Z: a fixed day, since a generator that looked at the clock would not repeat itself.
START_TIME_MS = 1_704_067_200_000

_AMOUNT_MEDIAN_CENTS = 2_000
_AMOUNT_SIGMA = 1.0
# The numbers of the hashes, and so part of what "the same seed" means: never renumber them.
_CUSTOMER, _PRODUCT, _AMOUNT, _DELAY = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class OrderShape:
    """What the orders look like. Event times: record n at `start_time_ms` + n * `event_interval_ms`, less a random delay."""

    seed: int = 0
    customers: int = 10_000
    products: int = 500
    start_time_ms: int = START_TIME_MS
    event_interval_ms: int = 10
    disorder_ms_max: int = 500

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UsageError(f"the seed must not be negative: {self.seed}")
        for name in ("customers", "products", "disorder_ms_max"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.event_interval_ms < 0:
            raise UsageError(f"event_interval_ms must not be negative: {self.event_interval_ms}")


@dataclass(frozen=True, slots=True)
class GeneratedOrders:
    """A source of endless orders: key = customer, value = {order_id, customer, product, amount, event_time_ms}.

    `order_id` is unique for a seed; `amount` is in cents.
    """

    spark: SparkSession
    shape: OrderShape = OrderShape()

    @property
    def total(self) -> int | None:
        return None

    def stretch(self, first: int, count: int, tasks: int) -> DataFrame:
        """Task t of T makes the records first + t, first + t + T, ...: all tasks advance in event time together."""
        tasks = min(tasks, count)
        indices = self.spark.range(0, tasks, 1, tasks).select(
            fn.explode(
                fn.sequence(
                    fn.col("id") + first, fn.lit(first + count - 1).cast("bigint"), fn.lit(tasks).cast("bigint")
                )
            ).alias("index")
        )
        return indices.select("index", *_order(fn.col("index"), self.shape))


def _order(index: Column, shape: OrderShape) -> tuple[Column, Column]:
    customer = _named("customer", _zipf_rank(_uniform(_hash(shape, index, _CUSTOMER)), shape.customers))
    product = _named("product", _zipf_rank(_uniform(_hash(shape, index, _PRODUCT)), shape.products))
    delay_ms = fn.pmod(_hash(shape, index, _DELAY), fn.lit(shape.disorder_ms_max).cast("bigint"))
    event_time_ms = fn.lit(shape.start_time_ms).cast("bigint") + index * shape.event_interval_ms - delay_ms
    value = fn.to_json(
        fn.struct(
            fn.concat(fn.lit(f"{shape.seed}-"), fn.lpad(index.cast("string"), 12, "0")).alias("order_id"),
            customer.alias("customer"),
            product.alias("product"),
            _amount_cents(_hash(shape, index, _AMOUNT)).alias("amount"),
            event_time_ms.alias("event_time_ms"),
        )
    )
    return customer.alias("key"), value.alias("value")


def _hash(shape: OrderShape, index: Column, quantity: int) -> Column:
    """64 random bits."""
    return fn.xxhash64(fn.lit(shape.seed).cast("bigint"), index, fn.lit(quantity).cast("int"))


def _uniform(bits: Column) -> Column:
    """In [0, 1)."""
    return fn.shiftrightunsigned(bits, 11) * fn.lit(2.0**-53)


def _zipf_rank(uniform: Column, count: int) -> Column:
    """1 to `count`, rank k with a chance proportional to log(1 + 1/k)."""
    # Rounding may carry the largest uniform number to count + 1.
    return fn.least(fn.floor(fn.pow(fn.lit(float(count + 1)), uniform)), fn.lit(count).cast("bigint"))


def _amount_cents(bits: Column) -> Column:
    """Log-normal but for the far tails: the sum of four uniform numbers stands for the normal one."""
    quarters = [fn.shiftrightunsigned(bits, shift).bitwiseAND(fn.lit(0xFFFF)) for shift in (0, 16, 32, 48)]
    uniform_sum = (quarters[0] + quarters[1] + quarters[2] + quarters[3]) / fn.lit(65_536.0)
    normal = (uniform_sum - 2.0) * math.sqrt(3.0)
    return fn.round(fn.exp(fn.lit(math.log(_AMOUNT_MEDIAN_CENTS)) + normal * _AMOUNT_SIGMA)).cast("bigint")


def _named(what: str, rank: Column) -> Column:
    return fn.concat(fn.lit(f"{what}-"), fn.lpad(rank.cast("string"), 6, "0"))
