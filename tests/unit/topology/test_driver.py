"""The test driver that users get: clocks, partitions, stores on disk, helpful refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreams_worker import StreamsBuilder, Topology
from kstreams_worker.errors import UsageError
from kstreams_worker.testing.driver import TopologyTestDriver


def counting() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).group_by_key().count(materialized="counts").to_stream().to("out")
    return builder.build()


def test_records_take_the_drivers_time_unless_they_have_their_own() -> None:
    with TopologyTestDriver(counting()) as driver:
        source = driver.input_topic("in")
        source.pipe("a", "x")
        driver.advance(1500)
        source.pipe("b", "x")
        source.pipe("c", "x", timestamp_ms=7)
        assert [record.timestamp_ms for record in driver.output_topic("out").read_all()] == [0, 1500, 7]


def test_each_record_is_read_once() -> None:
    with TopologyTestDriver(counting()) as driver:
        out = driver.output_topic("out")
        driver.input_topic("in").pipe_batch([("a", "x"), ("b", "x"), ("a", "x")])
        assert out.read_latest() == {"a": 2, "b": 1}
        assert out.read_all() == []
        driver.input_topic("in").pipe("a", "x")
        assert driver.output_topic("out").read_pairs() == [("a", 3)]


def test_stores_on_disk_are_found_again_as_they_were_committed(tmp_path: Path) -> None:
    with TopologyTestDriver(counting(), state_directory=tmp_path) as driver:
        driver.input_topic("in").pipe("a", "x")
        driver.commit()
        driver.input_topic("in").pipe("a", "not committed")
    with TopologyTestDriver(counting(), state_directory=tmp_path) as driver:
        assert driver.store("counts").get("a") == 1
        driver.input_topic("in").pipe("a", "x")
        assert driver.output_topic("out").read_pairs() == [("a", 2)]


def test_a_topic_that_one_part_writes_and_another_reads() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).to("middle")
    builder.stream("middle", key=str, value=str).map_values(str.upper, value=str).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input_topic("in").pipe("a", "x")
        assert driver.output_topic("middle").read_pairs() == [("a", "x")]
        assert driver.output_topic("out").read_pairs() == [("a", "X")]


def test_topics_can_be_written_and_read_with_other_serdes() -> None:
    with TopologyTestDriver(counting()) as driver:
        driver.input_topic("in", key=bytes, value=bytes).pipe(b"a", b"x")
        assert driver.output_topic("out", key=bytes, value=bytes).read_pairs() == [(b"a", b"\0\0\0\0\0\0\0\1")]


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with TopologyTestDriver(counting()) as driver:
        with pytest.raises(UsageError, match="does not read 'inn'; it reads: in"):
            driver.input_topic("inn")
        with pytest.raises(UsageError, match="does not write 'ou'; it writes: out"):
            driver.output_topic("ou")
        with pytest.raises(UsageError, match="has no store 'count'; it has: counts"):
            driver.store("count")
