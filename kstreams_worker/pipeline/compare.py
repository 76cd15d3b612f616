"""Compares an output with what it should be, in Spark, and counts and shows what differs.

Nothing is collected but counts and a few examples, so neither the outputs nor the faults need fit one machine. When
there are no faults, each output is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as fn

from kstreams_worker.pipeline.checks.model import OutputCheck, Parameters
from kstreams_worker.pipeline.report import Comparison, Example, Fault, Guarantee, OutputReport, Place

# Of one record that is doubled beyond measure, the copies looked at for an example.
_ROWS_PER_EXAMPLE_MAX = 100


@dataclass(frozen=True, slots=True)
class Compared:
    """What is compared: `expected` as the check makes it, `actual` with key, value, topic, partition and offset, raw."""

    check: OutputCheck
    parameters: Parameters
    expected: DataFrame
    actual: DataFrame
    input_topic: str
    topic: str
    guarantee: Guarantee
    examples_max: int


def compare(compared: Compared) -> OutputReport:
    """The report on one output. Runs Spark jobs, and raises Spark's errors."""
    if compared.check.comparison is Comparison.MULTISET:
        return _compare_multiset(compared)
    return _compare_last_values(compared)


# --- Each expected record exactly once ---


def _compare_multiset(compared: Compared) -> OutputReport:
    decoded = compared.check.decode(fn.col("value"), compared.parameters)
    expected = compared.expected.withColumn("id", _record_id(compared.check, fn.col("value")))
    actual = compared.actual.select(
        "key", fn.coalesce(decoded, fn.col("value").cast("string")).alias("value"), "partition", "offset"
    ).withColumn("id", _record_id(compared.check, fn.col("value")))
    faults = _multiset_faults(expected, actual)
    totals = _totals(faults)
    examples: list[Example] = []
    if _any(totals) and compared.examples_max > 0:
        ids = _first_of_each_fault(faults.where(_has_fault()), totals, "id", compared.examples_max)
        wanted = {row["id"] for rows in ids.values() for row in rows}
        expected_rows = _rows_by_id(expected, wanted)
        actual_rows = _rows_by_id(actual, wanted)
        examples = [
            example
            for fault, rows in ids.items()
            for row in rows
            for example in _multiset_examples(
                fault, expected_rows.get(row["id"], []), actual_rows.get(row["id"], []), compared
            )[:1]
        ]
    return _report(compared, totals, records=totals["actual"], examples=examples)


def _record_id(check: OutputCheck, value: Column) -> Column:
    whole = fn.concat_ws(":", fn.hex("key"), value)
    return whole if check.identity is None else fn.coalesce(check.identity(value), whole)


def _multiset_faults(expected: DataFrame, actual: DataFrame) -> DataFrame:
    """One row for each record id: how often it is expected and there, and its faults."""
    content = fn.xxhash64("key", "value").alias("content")
    both = expected.select("id", content, fn.lit(1).alias("expected"), fn.lit(0).alias("actual")).unionAll(
        actual.select("id", content, fn.lit(0).alias("expected"), fn.lit(1).alias("actual"))
    )
    # One shuffle, by id, serves both aggregations.
    by_content = (
        both.repartition("id")
        .groupBy("id", "content")
        .agg(fn.sum("expected").alias("expected"), fn.sum("actual").alias("actual"))
    )
    is_expected = fn.col("expected") > 0
    by_id = by_content.groupBy("id").agg(
        fn.sum("expected").alias("expected"),
        fn.sum("actual").alias("actual"),
        fn.sum(fn.least("expected", "actual")).alias("matched"),
        fn.sum(fn.when(~is_expected, fn.col("actual")).otherwise(0)).alias("foreign"),
        fn.sum(fn.when(is_expected, fn.greatest(fn.col("actual") - fn.col("expected"), fn.lit(0))).otherwise(0)).alias(
            "doubled"
        ),
    )
    unmatched = fn.col("expected") - fn.col("matched")
    return by_id.select(
        "id",
        "expected",
        "actual",
        # A record that is there with another content is wrong, not missing.
        fn.when(is_expected, fn.greatest(unmatched - fn.col("foreign"), fn.lit(0)))
        .otherwise(0)
        .alias(Fault.MISSING.value),
        fn.when(~is_expected, fn.col("foreign")).otherwise(0).alias(Fault.EXTRA.value),
        fn.col("doubled").alias(Fault.DOUBLED.value),
        fn.when(is_expected, fn.col("foreign")).otherwise(0).alias(Fault.WRONG.value),
    )


def _rows_by_id(rows: DataFrame, ids: set[str]) -> dict[str, list[Row]]:
    by_id: dict[str, list[Row]] = {}
    wanted = rows.where(fn.col("id").isin(sorted(ids))).orderBy("partition", "offset")
    for row in wanted.limit(_ROWS_PER_EXAMPLE_MAX * len(ids)).collect():
        by_id.setdefault(row["id"], []).append(row)
    return by_id


def _multiset_examples(fault: Fault, expected: list[Row], actual: list[Row], compared: Compared) -> list[Example]:
    """The examples of one fault that the rows of one record id give."""
    contents = [(row["key"], row["value"]) for row in expected]
    first = expected[0] if expected else None
    wanted = None if first is None else first["value"]
    if fault is Fault.MISSING:
        return [
            Example(fault, _text(row["key"]), row["value"], None, _place(compared.input_topic, row)) for row in expected
        ]
    if fault is Fault.DOUBLED:
        copies = [row for row in actual if (row["key"], row["value"]) in contents][len(expected) :]
        note = f"there {len(actual)} times, expected {len(expected)}"
    else:
        copies = [row for row in actual if (row["key"], row["value"]) not in contents]
        note = ""
        if first is not None and copies and copies[0]["key"] != first["key"]:
            note = f"expected key {_text(first['key'])}"
    return [
        Example(fault, _text(row["key"]), wanted, row["value"], _place(compared.topic, row), note) for row in copies
    ]


# --- The last value of each key ---


def _compare_last_values(compared: Compared) -> OutputReport:
    keys = _last_value_faults(compared)
    totals = _totals(keys, fn.sum(fn.coalesce("updates", fn.lit(0))).alias("updates"))
    examples: list[Example] = []
    if _any(totals) and compared.examples_max > 0:
        rows_by_fault = _first_of_each_fault(keys.where(_has_fault()), totals, "key", compared.examples_max)
        examples = [
            _last_value_example(fault, row, compared.topic) for fault, rows in rows_by_fault.items() for row in rows
        ]
    return _report(compared, totals, records=totals["updates"], examples=examples)


def _updates(compared: Compared) -> DataFrame:
    """All updates, with `progress` and whether each is `overtaken`: no further than an update before it."""
    check = compared.check
    value = check.decode(fn.col("value"), compared.parameters)
    updates = compared.actual.select(
        "key",
        value.alias("value"),
        fn.col("value").cast("string").alias("raw"),
        fn.col("value").isNull().alias("deleted"),
        "partition",
        "offset",
    )
    progress = fn.lit(None).cast("bigint") if check.progress is None else check.progress(fn.col("value"))
    before = Window.partitionBy("key").orderBy("partition", "offset").rowsBetween(Window.unboundedPreceding, -1)
    return updates.withColumn("progress", progress).withColumn(
        "overtaken",
        fn.coalesce(fn.col("progress") <= fn.max("progress").over(before), fn.lit(False)),
    )


def _last_value_faults(compared: Compared) -> DataFrame:
    """One row for each key, expected or there, with its faults."""
    check = compared.check
    place = fn.struct("partition", "offset")
    update = fn.struct("partition", "offset", "value", "raw", "deleted", "progress")
    there = (
        _updates(compared)
        .groupBy("key")
        .agg(
            fn.count("*").alias("updates"),
            fn.max_by(update, place).alias("last"),
            fn.count_if("overtaken").alias("overtaken"),
            fn.min(fn.when(fn.col("overtaken"), update)).alias("first_overtaken"),
            fn.min(fn.when(fn.col("value").isNull() & ~fn.col("deleted"), update)).alias("undecodable"),
            (fn.max("partition") - fn.min("partition") > 0).alias("scattered"),
        )
    )
    expected = compared.expected.select("key", fn.col("value").alias("expected_value"))
    keys = expected.join(there, "key", "full_outer")

    is_expected = fn.col("expected_value").isNotNull()
    is_there = fn.coalesce(~fn.col("last.deleted"), fn.lit(False))
    differs = ~fn.coalesce(fn.col("last.value") == fn.col("expected_value"), fn.lit(False))
    over_count = fn.lit(0).cast("bigint")
    if compared.guarantee == "at_least_once" and check.progress is not None:
        # Input that was processed again is counted again, and the rest of the value cannot be known then.
        ahead = fn.col("last.progress") - check.progress(fn.col("expected_value"))
        over_count = fn.when(is_expected & is_there, fn.greatest(fn.coalesce(ahead, fn.lit(0)), fn.lit(0))).otherwise(0)
        differs = differs & (over_count == 0)
    misplaced = fn.coalesce("scattered", fn.lit(False)) | fn.col("undecodable").isNotNull()
    return keys.select(
        "key",
        "expected_value",
        "last",
        "first_overtaken",
        "undecodable",
        "scattered",
        "updates",
        is_expected.cast("int").alias("expected"),
        is_there.cast("int").alias("actual"),
        (is_expected & ~is_there).cast("bigint").alias(Fault.MISSING.value),
        (~is_expected & is_there).cast("bigint").alias(Fault.EXTRA.value),
        (fn.coalesce("overtaken", fn.lit(0)) + over_count).alias(Fault.DOUBLED.value),
        (is_expected & is_there & (differs | misplaced)).cast("bigint").alias(Fault.WRONG.value),
    )


def _last_value_example(fault: Fault, row: Row, topic: str) -> Example:
    last, note = row["last"], ""
    shown = last
    if fault is Fault.DOUBLED:
        shown = row["first_overtaken"] or last
        note = f"{row[Fault.DOUBLED.value]} update(s) that are no further than one before"
    elif fault is Fault.WRONG and row["undecodable"] is not None:
        shown, note = row["undecodable"], "cannot be decoded"
    elif fault is Fault.WRONG and row["scattered"]:
        note = "this key is in more than one partition"
    actual = None if shown is None or shown["deleted"] else shown["value"] or shown["raw"]
    place = None if shown is None else _place(topic, shown)
    return Example(fault, _text(row["key"]), row["expected_value"], actual, place, note)


# --- Both ---


def _has_fault() -> Column:
    return fn.greatest(*(fault.value for fault in Fault)) > 0


def _totals(faults: DataFrame, *more: Column) -> dict[str, int]:
    columns = ["expected", "actual", *(fault.value for fault in Fault)]
    row = faults.agg(*(fn.sum(name).alias(name) for name in columns), *more).collect()[0]
    return {name: value or 0 for name, value in row.asDict().items()}


def _any(totals: dict[str, int]) -> bool:
    return any(totals[fault.value] for fault in Fault)


def _first_of_each_fault(
    faulty: DataFrame, totals: dict[str, int], order: str, examples_max: int
) -> dict[Fault, Sequence[Row]]:
    faulty = faulty.persist()
    try:
        return {
            fault: faulty.where(fn.col(fault.value) > 0).orderBy(order).limit(examples_max).collect()
            for fault in Fault
            if totals[fault.value]
        }
    finally:
        faulty.unpersist()


def _report(compared: Compared, totals: dict[str, int], records: int, examples: list[Example]) -> OutputReport:
    return OutputReport(
        topic=compared.topic,
        comparison=compared.check.comparison,
        expected=totals["expected"],
        actual=totals["actual"],
        records=records,
        missing=totals[Fault.MISSING.value],
        extra=totals[Fault.EXTRA.value],
        doubled=totals[Fault.DOUBLED.value],
        wrong=totals[Fault.WRONG.value],
        examples=tuple(examples),
    )


def _text(key: bytes | None) -> str | None:
    return None if key is None else bytes(key).decode(errors="replace")


def _place(topic: str, row: Row) -> Place:
    return Place(topic, row["partition"], row["offset"])
