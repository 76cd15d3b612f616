"""The text form of a topology equals, to the character, what Kafka Streams 4.3.1 prints for the same program.

The expected texts in `describe/` are the output of that version's `Topology.describe()`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kstreams_worker.topology import serdes
from kstreams_worker.topology.builder import StreamsBuilder
from kstreams_worker.topology.kstream import KStream
from kstreams_worker.topology.ktable import KTable

EXPECTED = Path(__file__).parent / "describe"


def stream(builder: StreamsBuilder, topic: str = "in", name: str | None = None) -> KStream:
    return builder.stream(topic, key=str, value=str, name=name)


def table(builder: StreamsBuilder, topic: str = "t", materialized: str | None = None) -> KTable:
    return builder.table(topic, key=str, value=str, materialized=materialized)


def yes(key: object, value: object) -> bool:
    return True


def same(value: object) -> object:
    return value


def pair(key: object, value: object) -> tuple[object, object]:
    return key, value


def value_of(key: object, value: object) -> object:
    return value


def keep(key: object, value: object, aggregate: object) -> object:
    return aggregate


def first(aggregate: object, value: object) -> object:
    return aggregate


def ignore(key: object, value: object, context: object) -> None:
    return None


def filters(b: StreamsBuilder) -> None:
    stream(b).filter(yes).filter_not(yes).to("out")


def all_steps(b: StreamsBuilder) -> None:
    mapped = stream(b).map(pair, key=str, value=str).map_values(same, value=str).flat_map(lambda k, v: [(k, v)])
    mapped.flat_map_values(lambda v: [v]).peek(yes).select_key(value_of).to("out", key=str, value=str)


def count(b: StreamsBuilder) -> None:
    stream(b).group_by_key().count().to_stream().to("out")


def count_named(b: StreamsBuilder) -> None:
    stream(b).group_by_key().count(materialized="Counts").to_stream().to("out")


def groupby_count(b: StreamsBuilder) -> None:
    stream(b).group_by(value_of, key=str).count().to_stream().to("out")


def groupby_count_named(b: StreamsBuilder) -> None:
    stream(b).group_by(value_of, key=str).count(materialized="Counts").to_stream().to("out")


def groupby_named_reduce(b: StreamsBuilder) -> None:
    stream(b).group_by(value_of, key=str, name="by-word").reduce(first).to_stream().to("out")


def aggregate(b: StreamsBuilder) -> None:
    stream(b).group_by_key().aggregate(str, keep, value=str).to_stream().to("out")


def repartition(b: StreamsBuilder) -> None:
    stream(b).repartition().to("out")


def repartition_named(b: StreamsBuilder) -> None:
    stream(b).repartition(name="spread").to("out")


def merge(b: StreamsBuilder) -> None:
    stream(b, "a").merge(stream(b, "b")).to("out")


def two_topics(b: StreamsBuilder) -> None:
    b.stream(["b", "a"]).to("out")


def table_steps(b: StreamsBuilder) -> None:
    table(b).filter(yes).map_values(same, value=str).to_stream().to("out")


def table_named(b: StreamsBuilder) -> None:
    table(b, materialized="T").filter(yes, materialized="F").to_stream().to("out")


def table_groupby_count(b: StreamsBuilder) -> None:
    table(b).group_by(pair, key=str, value=str).count().to_stream().to("out")


def table_groupby_agg(b: StreamsBuilder) -> None:
    grouped = table(b).group_by(pair, key=str, value=str)
    grouped.aggregate(str, keep, keep, value=str, materialized="A").to_stream().to("out")


def table_groupby_reduce(b: StreamsBuilder) -> None:
    table(b).group_by(pair, key=str, value=str).reduce(first, first).to_stream().to("out")


def process(b: StreamsBuilder) -> None:
    b.add_state_store("seen", key=str, value=str)
    stream(b).process(ignore, stores=["seen"]).to("out", key=str, value=str)
    stream(b, "in2").process(ignore, stores=["seen"])


def orders(b: StreamsBuilder) -> None:
    source = stream(b, "orders")
    source.filter(yes).to("large")
    source.group_by_key().aggregate(str, keep, value=str, materialized="totals").to_stream().to("customer-totals")
    source.group_by(value_of, key=str).count(materialized="revenue").to_stream().to("product-revenue")


def same_topic_twice(b: StreamsBuilder) -> None:
    stream(b).to("x")
    stream(b).to("y")


def selectkey_groupbykey(b: StreamsBuilder) -> None:
    stream(b).select_key(value_of).group_by_key(key=str).count().to_stream().to("out")


def foreach(b: StreamsBuilder) -> None:
    stream(b).for_each(yes)


def two_aggs(b: StreamsBuilder) -> None:
    grouped = stream(b).group_by(value_of, key=str)
    grouped.count(materialized="A")
    grouped.reduce(first, materialized="B")


def table_plain(b: StreamsBuilder) -> None:
    table(b).to_stream().to("a")


def named(b: StreamsBuilder) -> None:
    stream(b, "z").filter(yes, name="keep").to("out", name="write")


def table_mapvalues_mat(b: StreamsBuilder) -> None:
    mapped = table(b, materialized="T").map_values(same, value=str, materialized="M")
    mapped.to_stream(name="ts").to("out")


def named1(b: StreamsBuilder) -> None:
    kept = stream(b, name="src").filter(yes, name="keep").peek(yes)
    kept.select_key(value_of, key=str, name="sel").peek(yes).to("o")


def named2(b: StreamsBuilder) -> None:
    stream(b).merge(stream(b, "in2"), name="m").to("o", name="w")
    stream(b, "z").to("q")


def named3(b: StreamsBuilder) -> None:
    counted = stream(b).group_by_key(name="g").count(name="cnt", materialized="st")
    counted.to_stream(name="ts").to("o")


def named4(b: StreamsBuilder) -> None:
    stream(b).group_by_key().count(name="cnt").to_stream().to("o")


def named5(b: StreamsBuilder) -> None:
    table(b, "in", "T").to_stream(name="ts").to("o")


def named6(b: StreamsBuilder) -> None:
    b.table("in", name="tt").to_stream(name="ts").to("o")


def named8(b: StreamsBuilder) -> None:
    grouped = table(b, "in", "T").group_by(pair, key=str, value=str, name="gr")
    grouped.count(name="cn", materialized="C").to_stream().to("o")


def named9(b: StreamsBuilder) -> None:
    grouped = stream(b).select_key(value_of).group_by_key(key=serdes.string, name="g")
    grouped.count(name="cnt").to_stream().to("o")


def named10(b: StreamsBuilder) -> None:
    mapped = table(b, "in").map_values(same, value=str, name="mv")
    mapped.filter_not(yes, name="ff").to_stream().to("o")


def named11(b: StreamsBuilder) -> None:
    grouped = stream(b).group_by(value_of, key=str, name="g")
    grouped.count(materialized="A").to_stream().to("x")
    grouped.reduce(first, materialized="B").to_stream().to("y")


PROGRAMS: dict[str, Callable[[StreamsBuilder], None]] = {
    "all": all_steps,
    "filter": filters,
    "table": table_steps,
    **{
        program.__name__.replace("_", "-"): program
        for program in (
            aggregate,
            count,
            count_named,
            foreach,
            groupby_count,
            groupby_count_named,
            groupby_named_reduce,
            merge,
            named,
            named1,
            named2,
            named3,
            named4,
            named5,
            named6,
            named8,
            named9,
            named10,
            named11,
            orders,
            process,
            repartition,
            repartition_named,
            same_topic_twice,
            selectkey_groupbykey,
            table_groupby_agg,
            table_groupby_count,
            table_groupby_reduce,
            table_mapvalues_mat,
            table_named,
            table_plain,
            two_aggs,
            two_topics,
        )
    },
}


@pytest.mark.parametrize("title", sorted(PROGRAMS))
def test_text_equals_that_of_kafka_streams(title: str) -> None:
    builder = StreamsBuilder()
    PROGRAMS[title](builder)
    assert builder.build().describe() == (EXPECTED / f"{title}.txt").read_text()


def test_every_expected_text_has_its_program() -> None:
    assert sorted(path.stem for path in EXPECTED.iterdir()) == sorted(PROGRAMS)
