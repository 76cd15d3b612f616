"""Each stateless step by itself: what comes out for what goes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kstreams_worker import StreamsBuilder
from kstreams_worker.testing.driver import TestRecord

Pairs = Callable[..., list[tuple[Any, Any]]]
RECORDS = [("a", 1), ("b", 2), ("a", 3)]


def test_filter_keeps_what_matches(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=int).filter(lambda key, value: value > 1).to("out")

    assert pairs(build, RECORDS) == [("b", 2), ("a", 3)]


def test_filter_not_drops_what_matches(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=int).filter_not(lambda key, value: key == "a").to("out")

    assert pairs(build, RECORDS) == [("b", 2)]


def test_map_replaces_key_and_value(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        mapped = builder.stream("in", key=str, value=int).map(lambda key, value: (value, key), key=int, value=str)
        mapped.to("out")

    assert pairs(build, RECORDS) == [(1, "a"), (2, "b"), (3, "a")]


def test_map_values_takes_the_value(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=int).map_values(lambda value: value * 10, value=int).to("out")

    assert pairs(build, RECORDS) == [("a", 10), ("b", 20), ("a", 30)]


def test_map_values_takes_key_and_value(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=int).map_values(lambda key, value: key * value, value=str).to("out")

    assert pairs(build, RECORDS) == [("a", "a"), ("b", "bb"), ("a", "aaa")]


def test_flat_map_gives_any_number_of_records(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=int)
        stream.flat_map(lambda key, value: [(value, key)] * (value - 1), key=int, value=str).to("out")

    assert pairs(build, RECORDS) == [(2, "b"), (3, "a"), (3, "a")]


def test_flat_map_values_takes_a_generator(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=int)
        stream.flat_map_values(lambda value: (number for number in range(value)), value=int).to("out")

    assert pairs(build, RECORDS) == [("a", 0), ("b", 0), ("b", 1), ("a", 0), ("a", 1), ("a", 2)]


def test_flat_map_values_takes_key_and_value(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=int)
        stream.flat_map_values(lambda key, value: [key, str(value)], value=str).to("out")

    assert pairs(build, RECORDS[:1]) == [("a", "a"), ("a", "1")]


def test_select_key_replaces_the_key(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=int).select_key(lambda key, value: value % 2, key=int).to("out")

    assert pairs(build, RECORDS) == [(1, 1), (0, 2), (1, 3)]


def test_peek_sees_records_and_passes_them_on(pairs: Pairs) -> None:
    seen = []

    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=int).peek(lambda key, value: seen.append((key, value))).to("out")

    assert pairs(build, RECORDS) == RECORDS
    assert seen == RECORDS


def test_for_each_sees_records(pairs: Pairs) -> None:
    seen = []

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=int)
        stream.for_each(lambda key, value: seen.append((key, value)))
        stream.to("out")

    assert pairs(build, RECORDS) == RECORDS
    assert seen == RECORDS


def test_two_branches_of_one_stream_both_get_all(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=int)
        stream.filter(lambda key, value: value == 1).to("out")
        stream.filter(lambda key, value: value < 3).to("out")

    assert pairs(build, RECORDS) == [("a", 1), ("a", 1), ("b", 2)]


def test_merge_joins_two_streams(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=int)
        odd = stream.filter(lambda key, value: value % 2 == 1)
        tenfold = stream.map_values(lambda value: value * 10, value=int)
        odd.merge(tenfold).to("out")

    assert pairs(build, RECORDS) == [("a", 1), ("a", 10), ("b", 20), ("a", 3), ("a", 30)]


def test_split_takes_the_first_branch_that_matches(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        branches = builder.stream("in", key=str, value=int).split(
            {"one": lambda key, value: value == 1, "a": lambda key, value: key == "a"}, default="rest"
        )
        for name, stream in branches.items():
            stream.map_values(lambda value, name=name: f"{name}{value}", value=str).to("out")

    assert pairs(build, RECORDS) == [("a", "one1"), ("b", "rest2"), ("a", "a3")]


def test_split_without_default_drops_the_rest(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        branches = builder.stream("in", key=str, value=int).split({"b": lambda key, value: key == "b"})
        branches["b"].to("out")

    assert pairs(build, RECORDS) == [("b", 2)]


def test_records_keep_their_timestamps(run: Callable[..., list[TestRecord]]) -> None:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=int).filter(lambda key, value: value != 2)
        stream.map_values(lambda value: value, value=int).to("out")

    records = run(build, [("a", 1, 30), ("b", 2, 20), ("c", 3, 10)])
    assert records == [TestRecord("a", 1, 30), TestRecord("c", 3, 10)]


def test_nulls_reach_functions_as_none(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=int).filter(lambda key, value: key is None or value is None).to("out")

    assert pairs(build, [("a", None), (None, 1), ("b", 2), (None, None)]) == [("a", None), (None, 1), (None, None)]


def test_a_function_that_returns_none_writes_a_null(pairs: Pairs) -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=int).map(lambda key, value: (None, None), key=str, value=str).to("out")

    assert pairs(build, [("a", 1)]) == [(None, None)]


def test_several_topics_are_one_stream() -> None:
    from kstreams_worker.testing.driver import TopologyTestDriver

    builder = StreamsBuilder()
    builder.stream(["in", "other"], key=str, value=int).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input_topic("other").pipe("b", 2)
        driver.input_topic("in").pipe("a", 1)
        assert driver.output_topic("out").read_pairs() == [("b", 2), ("a", 1)]
