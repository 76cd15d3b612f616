"""Records that cannot be decoded, and steps that raise: which record and which step, exactly."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from kstreams_worker import RecordError, StreamsBuilder, Topology
from kstreams_worker.testing.driver import TopologyTestDriver
from kstreams_worker.topology.failures import ForwardError


def boom(value: int) -> int:
    if value == 13:
        raise LookupError("thirteen")
    return value


def mapped(topic: str = "in") -> Topology:
    builder = StreamsBuilder()
    builder.stream(topic, key=str, value=int).map_values(boom, value=int).to("out")
    return builder.build()


def test_a_step_that_raises_names_the_record_and_the_step() -> None:
    with TopologyTestDriver(mapped()) as driver:
        driver.input_topic("in").pipe("x", 1)
        with pytest.raises(RecordError) as caught:
            driver.input_topic("in").pipe_batch([("a", 1), ("b", 2), ("c", 13), ("d", 4)])
    error = caught.value
    assert (error.topic, error.partition, error.offset) == ("in", 0, 3)
    assert str(error).startswith("in[0]@3: KSTREAM-MAPVALUES-0000000001 (tests/unit/topology/test_failures.py:")
    assert str(error).endswith("raised LookupError: thirteen")
    assert isinstance(error.__cause__, LookupError)


def test_the_traceback_shows_the_generated_line() -> None:
    with TopologyTestDriver(mapped()) as driver, pytest.raises(RecordError) as caught:
        driver.input_topic("in").pipe("a", 13)
    shown = "".join(traceback.format_exception(caught.value.__cause__))
    assert "<sub-topology 0 of test>" in shown
    assert "(value)" in shown


def test_the_offset_is_right_after_records_that_were_skipped() -> None:
    with TopologyTestDriver(mapped(), skip_undecodable=True) as driver:
        source = driver.input_topic("in", value=bytes)
        with pytest.raises(RecordError) as caught:
            source.pipe_batch([("a", b"?"), ("b", (1).to_bytes(8, "big")), ("c", b"?"), ("d", (13).to_bytes(8, "big"))])
        assert caught.value.offset == 3


def test_a_value_that_the_sinks_serde_refuses_names_the_sink() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).map_values(str, value=int).to("out", name="writer")
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(RecordError, match=r"in\[0\]@0: writer \("):
        driver.input_topic("in").pipe("a", 1)


def test_a_step_in_a_function_of_its_own_is_named() -> None:
    """Steps behind a merge are compiled into a function; the innermost generated line still tells which failed."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    merged = stream.filter(lambda key, value: True).merge(stream.filter(lambda key, value: False))
    merged.map_values(boom, value=int, name="culprit").filter(lambda key, value: True).peek(print).to("out")
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(RecordError, match=r"culprit \("):
        driver.input_topic("in").pipe("a", 13)


def test_a_step_after_a_cached_table_names_the_store_and_the_key() -> None:
    builder = StreamsBuilder()
    sums = builder.stream("in", key=str, value=int).group_by_key().reduce(lambda a, b: a + b, materialized="sums")
    sums.map_values(boom, value=int, name="culprit").to_stream().to("out")
    with TopologyTestDriver(builder.build(), cached=True) as driver:
        driver.input_topic("in").pipe_batch([("a", 1), ("b", 6), ("b", 7)])
        with pytest.raises(ForwardError, match=r"^store sums, key b'b': culprit \(.*raised LookupError: thirteen$"):
            driver.commit()


def undecodable(step: Any = None) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value="json")
    (stream.filter(lambda key, value: True) if step is None else step(stream)).to("out")
    return builder.build()


RAW = [(b"a", b"1"), (b"\xff", b"2"), (b"c", b"{"), (b"d", b"4"), (None, b"5"), (b"f", None)]


def test_undecodable_records_are_dropped_one_by_one() -> None:
    with TopologyTestDriver(undecodable(), skip_undecodable=True) as driver:
        driver.input_topic("in", key=bytes, value=bytes).pipe_batch(RAW)
        assert driver.output_topic("out").read_pairs() == [("a", 1), ("d", 4), (None, 5), ("f", None)]
        assert driver.undecodable == [("in", 0, 1, "key"), ("in", 0, 2, "value")]


def test_undecodable_records_stop_the_task_when_the_policy_raises() -> None:
    with TopologyTestDriver(undecodable()) as driver, pytest.raises(RecordError, match=r"in\[0\]@1: the key"):
        driver.input_topic("in", key=bytes, value=bytes).pipe_batch(RAW)


def test_a_key_that_no_step_looks_at_may_be_undecodable() -> None:
    topology = undecodable(lambda stream: stream.map_values(lambda value: value))
    with TopologyTestDriver(topology, skip_undecodable=True) as driver:
        driver.input_topic("in", key=bytes, value=bytes).pipe_batch(RAW)
        pairs = driver.output_topic("out", key=bytes).read_pairs()
        assert pairs == [(b"a", 1), (b"\xff", 2), (b"d", 4), (None, 5), (b"f", None)]
        assert driver.undecodable == [("in", 0, 2, "value")]


def test_a_batch_of_nothing_but_undecodable_records() -> None:
    with TopologyTestDriver(undecodable(), skip_undecodable=True) as driver:
        driver.input_topic("in", key=bytes, value=bytes).pipe_batch(RAW[1:3])
        assert driver.output_topic("out").read_all() == []
