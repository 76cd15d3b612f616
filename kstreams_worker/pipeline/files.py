"""Records from files: JSON lines, CSV or Parquet. Each file keeps its order; large files come before small ones."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Literal, get_args

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from kstreams_worker.errors import UsageError
from kstreams_worker.pipeline.failures import spark_errors

FileFormat = Literal["json", "csv", "parquet"]
FILE_FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)

# CSV has no types; these fields of an order are numbers.
_NUMBER_FIELDS = ("amount", "event_time_ms")
# monotonically_increasing_id() is the number of the partition above this bit, the position in it below.
_PARTITION_SHIFT = 33


class FileRecords:
    """A source of what files hold. Keeps them in Spark's cache (memory, then disk) until `close`.

    JSON lines go to the topic as they stand; rows of the other formats become JSON objects. The key is the field
    `key_field`, as text.
    """

    def __init__(self, spark: SparkSession, path: str, file_format: FileFormat, key_field: str = "customer") -> None:
        """Reads the files. Raises UsageError if they are not there, or a record lacks its key; KStreamsError otherwise."""
        with spark_errors(f"cannot read {file_format} from {path}", {"PATH_NOT_FOUND": UsageError}):
            rows = _read(spark, path, file_format, key_field)
            self._rows = rows.withColumn("id", fn.monotonically_increasing_id()).persist()
            keyless, counts = self._survey()
        if keyless:
            self.close()
            raise UsageError(f"{keyless} record(s) of {path} have no field {key_field!r} to take the key from")
        self._partitions = sorted(counts)
        self._starts = [0, *accumulate(counts[partition] for partition in self._partitions)]

    @property
    def total(self) -> int | None:
        return self._starts[-1]

    def close(self) -> None:
        self._rows.unpersist()

    def stretch(self, first: int, count: int, tasks: int) -> DataFrame:
        """`tasks` only bounds the parallelism: the files' own partitions are kept, for their order."""
        last = first + count - 1
        spanned = range(bisect_right(self._starts, first) - 1, bisect_right(self._starts, last))
        # The ids of consecutive records grow, so a stretch of records is one range of ids (which the cache can skip by).
        rows = self._rows.where(fn.col("id").between(self._id(first), self._id(last)))
        index: Column | None = None
        for number in spanned:
            here = fn.col("id") - fn.lit(self._partitions[number] << _PARTITION_SHIFT) + fn.lit(self._starts[number])
            below = fn.col("id") < fn.lit((self._partitions[number] + 1) << _PARTITION_SHIFT)
            index = fn.when(below, here) if index is None else index.when(below, here)
        assert index is not None
        return rows.coalesce(tasks).select(index.alias("index"), "key", "value")

    def _id(self, index: int) -> int:
        number = bisect_right(self._starts, index) - 1
        return (self._partitions[number] << _PARTITION_SHIFT) + index - self._starts[number]

    def _survey(self) -> tuple[int, dict[int, int]]:
        """How many records have no key, and how many each partition has."""
        rows = (
            self._rows.groupBy(fn.shiftright("id", _PARTITION_SHIFT).alias("partition"))
            .agg(fn.count("*").alias("records"), fn.count_if(fn.col("key").isNull()).alias("keyless"))
            .collect()
        )
        return sum(row["keyless"] for row in rows), {row["partition"]: row["records"] for row in rows}


def _read(spark: SparkSession, path: str, file_format: FileFormat, key_field: str) -> DataFrame:
    if file_format == "json":
        lines = spark.read.text(path).where(fn.trim("value") != "")
        fields = fn.from_json("value", f"`{key_field}` STRING")
        return lines.select(fields.getField(key_field).alias("key"), "value")
    if file_format == "csv":
        rows = spark.read.option("header", "true").csv(path)
        for name in _NUMBER_FIELDS:
            if name in rows.columns:
                rows = rows.withColumn(name, fn.col(name).cast("bigint"))
    else:
        rows = spark.read.parquet(path)
    if key_field not in rows.columns:
        raise UsageError(f"{path} has no field {key_field!r} to take the key from, only {', '.join(rows.columns)}")
    return rows.select(
        fn.col(f"`{key_field}`").cast("string").alias("key"),
        fn.to_json(fn.struct("*")).alias("value"),
    )
