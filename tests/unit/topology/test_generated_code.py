"""What the compiler writes: its size, its depth, and what of the hot path must not creep back in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kstreams_worker import KStream, StreamsBuilder, Topology, TopologyError
from kstreams_worker.testing.driver import TopologyTestDriver
from kstreams_worker.topology.compile import compile_subtopology


def source_of(topology: Topology, *, cached: bool = True) -> str:
    return compile_subtopology(topology.subtopologies[0], "app", cached=cached).source


def counting() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value="json").group_by_key().count(materialized="counts").to_stream().to("out")
    return builder.build()


def test_a_cached_count_is_one_loop_and_its_outputs_are_the_changelog_rows() -> None:
    """Keys stay bytes; no function is called for a record whose key is dirty or cached already; nothing is encoded twice."""
    source = source_of(counting())
    loop = source[source.index("for raw_key") : source.index("except Exception as error")]
    assert [line.strip() for line in loop.splitlines() if line.strip()] == [
        "for raw_key, value, time in zip(position, values, times):",
        "if raw_key is not None and value is not None:",
        "entry_2 = dirty_0_get(raw_key)",
        "if entry_2 is None:",
        "entry_2 = dirty_0_cached(raw_key)",
        "if entry_2 is None:",
        "entry_2 = load_0(raw_key)",
        "else:",
        "dirty_0[raw_key] = entry_2",
        "held_3 = entry_2[0]",
        "if held_3 is None:",
        "entry_2[0] = 1",
        "entry_2[1] = time",
        "else:",
        "entry_2[0] = held_3 + 1",
        "if time > entry_2[1]:",
        "entry_2[1] = time",
    ]
    assert "    def flush_4():\n        rows = store_0.stage()\n        rows_0.extend(rows)\n" in source


def test_two_tasks_share_code_but_not_state() -> None:
    with TopologyTestDriver(counting(), partitions=2) as driver:
        driver.input_topic("in").pipe("a", 1, partition=0)
        driver.input_topic("in").pipe("a", 1, partition=1)
        assert driver.store("counts", 0).get("a") == driver.store("counts", 1).get("a") == 1


def forked(stream: KStream, times: int) -> KStream:
    for _ in range(times):
        left = stream.filter(lambda key, value: value % 2 == 0)
        right = stream.filter(lambda key, value: value % 2 == 1)
        stream = left.merge(right).map_values(lambda value: value + 1, value=int)
    return stream


def test_code_grows_with_steps_not_with_paths() -> None:
    """Twenty forks in a row are a million paths."""
    sizes = []
    for times in (10, 20):
        builder = StreamsBuilder()
        forked(builder.stream("in", key=str, value=int), times).to("out")
        topology = builder.build()
        sizes.append(len(source_of(topology).splitlines()))
        with TopologyTestDriver(topology) as driver:
            driver.input_topic("in").pipe("a", 0)
            assert driver.output_topic("out").read_pairs() == [("a", times)]
    assert sizes[1] < 2.5 * sizes[0]
    assert sizes[1] < 20 * 15


@pytest.mark.parametrize("length", [15, 60])
def test_long_chains_of_nested_blocks_compile(length: int) -> None:
    """Python allows 20 nested loops and 100 levels of indentation."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    for _ in range(length):
        stream = stream.filter(lambda key, value: True).flat_map_values(lambda value: [value + 1], value=int)
    stream.to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input_topic("in").pipe("a", 0)
        assert driver.output_topic("out").read_pairs() == [("a", length)]


def test_a_chain_beyond_all_measure_is_refused() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    for _ in range(1000):
        stream = stream.filter(lambda key, value: True)
    stream.to("out")
    with pytest.raises(TopologyError, match="sub-topology 0 has too many steps in a row: 1002 in all"):
        TopologyTestDriver(builder.build())


def test_columns_that_no_step_needs_are_not_walked() -> None:
    builder = StreamsBuilder()
    builder.stream("in").for_each(lambda key, value: None)
    assert "for raw_key, raw_value in zip(position, raw_values):" in source_of(builder.build())


def test_a_store_that_all_records_reach_is_told_the_keys_of_each_batch() -> None:
    """So that it can read them together. Where a step may drop records, or change keys, it reads what it is asked for."""

    def prefetching(build: Callable[[KStream], KStream]) -> bool:
        builder = StreamsBuilder()
        build(builder.stream("in", key=str, value=int)).group_by_key().count().to_stream().to("out")
        return ".prefetch(" in source_of(builder.build())

    assert prefetching(lambda stream: stream)
    assert prefetching(lambda stream: stream.map_values(lambda value: value + 1, value=int).peek(print))
    assert not prefetching(lambda stream: stream.filter(lambda key, value: value > 1))
    assert not prefetching(lambda stream: stream.flat_map_values(lambda value: [value], value=int))


def test_a_regrouped_count_tells_its_store_the_keys_of_the_repartition_topic() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).group_by(lambda key, value: value, key=str).count().to_stream().to("out")
    first, second = builder.build().subtopologies
    assert ".prefetch(" not in compile_subtopology(first, "app").source
    assert "store_0.prefetch(raw_keys)" in compile_subtopology(second, "app").source
