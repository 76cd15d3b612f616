"""Records from files: all of them, in each file's order, with the right key."""

from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from kstreams_worker.errors import KStreamsError, UsageError
from kstreams_worker.pipeline.files import FileFormat, FileRecords

ORDERS = [
    {
        "order_id": f"o{number}",
        "customer": f"00{number % 7}",
        "product": "p",
        "amount": number,
        "event_time_ms": 1000 + number,
    }
    for number in range(60)
]


def write(directory: Path, file_format: FileFormat, spark: SparkSession) -> str:
    """Three files of twenty orders; returns their directory."""
    directory.mkdir()
    for part in range(3):
        rows = ORDERS[part * 20 : part * 20 + 20]
        path = directory / f"part-{part}.{file_format}"
        if file_format == "json":
            path.write_bytes(b"\n".join(orjson.dumps(row) for row in rows) + b"\n\n")
        elif file_format == "csv":
            path.write_text("\n".join([",".join(ORDERS[0]), *(",".join(map(str, row.values())) for row in rows)]))
        else:
            columns = "order_id string, customer string, product string, amount long, event_time_ms long"
            spark.createDataFrame(rows, columns).coalesce(1).write.parquet(str(directory / f"part-{part}"))
    return str(directory / "*") if file_format == "parquet" else str(directory)


@pytest.fixture(params=["json", "csv", "parquet"])
def records(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> FileRecords:
    found = FileRecords(spark, write(tmp_path / "files", request.param, spark), request.param)
    request.addfinalizer(found.close)
    return found


def test_files_are_read_in_stretches_without_gaps(records: FileRecords) -> None:
    """Each order once, its key taken from it, its value the same JSON object."""
    assert records.total == len(ORDERS)
    rows = [row for first, count in ((0, 1), (1, 24), (25, 35)) for row in records.stretch(first, count, 2).collect()]
    assert [row["index"] for row in rows] == list(range(60))
    assert [row["key"] for row in rows] == [order["customer"] for order in map(orjson.loads, values(rows))]
    assert sorted(map(orjson.loads, values(rows)), key=lambda order: order["amount"]) == ORDERS


def values(rows: list) -> list[str]:
    return [row["value"] for row in rows]


def test_json_lines_are_handed_on_as_they_stand(tmp_path: Path, spark: SparkSession) -> None:
    """Spaces, order of fields and numbers that Spark would write otherwise included; a number may be the key."""
    line = '{ "z": 1e2, "id":17,"a" : {"b": [1, 2.50]} }'
    (tmp_path / "one.json").write_text(line + "\n")
    found = FileRecords(spark, str(tmp_path / "one.json"), "json", key_field="id")
    (row,) = found.stretch(0, 1, 1).collect()
    found.close()
    assert (row["key"], row["value"]) == ("17", line)


def test_missing_path_is_a_mistake_in_usage(tmp_path: Path, spark: SparkSession) -> None:
    """One line, with the path."""
    with pytest.raises(UsageError, match="not-there") as failure:
        FileRecords(spark, str(tmp_path / "not-there"), "json")
    assert "\n" not in str(failure.value)


def test_records_without_a_key_are_refused(tmp_path: Path, spark: SparkSession) -> None:
    """With their number: a record without a key would go to any partition."""
    (tmp_path / "some.json").write_text('{"customer":"a"}\n{"client":"b"}\nnot json\n')
    with pytest.raises(UsageError, match=r"2 record.*'customer'"):
        FileRecords(spark, str(tmp_path / "some.json"), "json")
    (tmp_path / "some.csv").write_text("client,amount\nb,1\n")
    with pytest.raises(UsageError, match=r"no field 'customer'.*client, amount"):
        FileRecords(spark, str(tmp_path / "some.csv"), "csv")


def test_amount_that_is_no_number_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    """In CSV, which has no types of its own."""
    (tmp_path / "some.csv").write_text("customer,amount\nb,many\n")
    with pytest.raises(KStreamsError, match="many") as failure:
        FileRecords(spark, str(tmp_path / "some.csv"), "csv")
    assert "\n" not in str(failure.value)
