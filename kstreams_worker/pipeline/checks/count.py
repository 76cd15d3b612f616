"""The check of a plain count per key: any input, and an output whose last value of each key is its number of records."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from kstreams_worker.errors import UsageError
from kstreams_worker.pipeline.checks.model import Check, OutputCheck, Parameters
from kstreams_worker.pipeline.report import Comparison

_LONG_BYTES = 8


def _read(records: DataFrame, _parameters: Parameters) -> DataFrame:
    """A record without a key is counted nowhere."""
    return records.select("key", "partition", "offset", fn.col("key").isNotNull().alias("readable"))


def _counts(records: DataFrame, _parameters: Parameters) -> DataFrame:
    return records.groupBy("key").agg(fn.count("*").cast("string").alias("value"))


def _decode(value: Column, parameters: Parameters) -> Column:
    match parameters["format"]:
        case "long":
            return fn.when(fn.length(value) == _LONG_BYTES, fn.conv(fn.hex(value), 16, 10))
        case "json":
            text = value.cast("string")
            number = fn.coalesce(fn.get_json_object(text, "$.count"), text)
            return fn.when(number.rlike(r"^\d+$"), number)
        case other:
            raise UsageError(f"format is long (8 bytes, big-endian) or json (a number, or {{count}}), not {other!r}")


def _progress(value: Column) -> Column:
    return value.cast("bigint")


COUNT = Check(
    name="count",
    description="number of records per key, as a long of 8 bytes or as JSON",
    input_topic="input",
    read=_read,
    outputs=(OutputCheck("output", Comparison.LAST_VALUE_PER_KEY, _counts, _decode, progress=_progress),),
    parameters={"format": "long"},
)
