"""The check of `examples/orders.py`: large orders unchanged, running totals per customer and per product."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from kstreams_worker.errors import UsageError
from kstreams_worker.pipeline.checks.model import Check, OutputCheck, Parameters, canonical_json, fields_of_json
from kstreams_worker.pipeline.report import Comparison

_ORDER = "product STRING, amount BIGINT"
_TOTALS = "count BIGINT, amount BIGINT"


def _read(records: DataFrame, parameters: Parameters) -> DataFrame:
    """`value` is kept for large orders only: it is what costs, and nothing else is compared by it."""
    text = fn.col("value").cast("string")
    large = fn.col("amount") >= _large_amount(parameters)
    readable = fn.col("key").isNotNull() & fn.col("product").isNotNull() & fn.col("amount").isNotNull()
    return (
        records.select("key", "partition", "offset", text.alias("text"), fn.from_json(text, _ORDER).alias("order"))
        .select("key", "partition", "offset", "text", "order.product", "order.amount")
        .select(
            "key",
            "partition",
            "offset",
            "product",
            "amount",
            fn.when(large, canonical_json(fn.col("text"))).alias("value"),
            readable.alias("readable"),
        )
    )


def _large(orders: DataFrame, parameters: Parameters) -> DataFrame:
    large = fn.col("amount") >= _large_amount(parameters)
    return orders.where(large).select("key", "value", "partition", "offset")


def _large_amount(parameters: Parameters) -> int:
    try:
        return int(parameters["large_amount"])
    except ValueError:
        raise UsageError(f"large_amount is a number of cents, not {parameters['large_amount']!r}") from None


def _totals_by(key: str) -> Callable[[DataFrame, Parameters], DataFrame]:
    def totals(orders: DataFrame, _parameters: Parameters) -> DataFrame:
        sums = orders.groupBy(fn.col(key).cast("binary").alias("key")).agg(
            fn.count("*").alias("count"), fn.sum("amount").alias("amount")
        )
        return sums.select("key", fn.to_json(fn.struct("count", "amount")).alias("value"))

    return totals


def _decode_order(value: Column, _parameters: Parameters) -> Column:
    return canonical_json(value.cast("string"))


def _decode_totals(value: Column, _parameters: Parameters) -> Column:
    return fields_of_json(value.cast("string"), _TOTALS)


def _order_id(value: Column) -> Column:
    return fn.get_json_object(value, "$.order_id")


def _count(value: Column) -> Column:
    return fn.get_json_object(value, "$.count").cast("bigint")


ORDERS = Check(
    name="orders",
    description="large orders, totals per customer, revenue per product (examples/orders.py)",
    input_topic="orders",
    read=_read,
    outputs=(
        OutputCheck("large-orders", Comparison.MULTISET, _large, _decode_order, identity=_order_id),
        OutputCheck(
            "customer-totals", Comparison.LAST_VALUE_PER_KEY, _totals_by("key"), _decode_totals, progress=_count
        ),
        OutputCheck(
            "product-revenue", Comparison.LAST_VALUE_PER_KEY, _totals_by("product"), _decode_totals, progress=_count
        ),
    ),
    parameters={"large_amount": "10000"},
)
