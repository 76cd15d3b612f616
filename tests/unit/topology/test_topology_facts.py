"""What a topology says of itself: sub-topologies, topics, stores, fingerprint, picture."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from examples.orders import topology as orders
from kstreams_worker import Materialized, Serde, StreamsBuilder, Topology

Change = Callable[[StreamsBuilder], None]


def test_subtopologies_of_the_orders_example() -> None:
    first, second = orders.subtopologies
    assert (first.id, first.source_topics, first.sink_topics) == (0, ("orders",), ("customer-totals", "large-orders"))
    assert [store.name for store in first.stores] == ["customer-totals"]
    assert (second.id, second.source_topics, second.sink_topics) == (1, (), ("product-revenue",))
    assert [topic.topic("shop") for topic in second.repartition_sources] == ["shop-product-revenue-repartition"]
    assert first.repartition_sinks == second.repartition_sources
    assert first.is_stateful
    assert orders.source_topics == ("orders",)
    assert orders.sink_topics == ("customer-totals", "large-orders", "product-revenue")


def test_streams_that_share_nothing_are_sub_topologies_of_their_own() -> None:
    builder = StreamsBuilder()
    builder.stream("b").to("x")
    builder.stream("a").to("x")
    topology = builder.build()
    assert [(sub.id, sub.source_topics, sub.is_stateful) for sub in topology.subtopologies] == [
        (0, ("b",), False),
        (1, ("a",), False),
    ]


def test_stores_say_how_they_are_kept() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by_key()
    grouped.count(materialized=Materialized("a", logged=False))
    grouped.count(materialized=Materialized("b", cached=False))
    stores = {spec.name: spec for spec in builder.build().subtopologies[0].stores}
    assert [(name, spec.logged, spec.cached) for name, spec in stores.items()] == [
        ("a", False, True),
        ("b", True, False),
    ]
    assert stores["b"].changelog_topic("shop") == "shop-b-changelog"
    assert stores["b"].value.decode(stores["b"].value.encode(7)) == 7


def build(change: Change) -> Topology:
    builder = StreamsBuilder()
    change(builder)
    return builder.build()


def counted(**options: object) -> Change:
    settings = {"key": str, "value": int, "store": "s", "step": lambda key, value: True, "to": "out", **options}

    def change(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=settings["key"], value=settings["value"])  # type: ignore[arg-type]
        stream.filter(settings["step"]).group_by_key().count(materialized=settings["store"]).to_stream().to(
            settings["to"]
        )  # type: ignore[arg-type]

    return change


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (counted(), True),
        (counted(step=lambda key, value: False), True),
        (counted(value=Serde("int", repr, len)), True),  # type: ignore[arg-type]
        (counted(value=str), False),
        (counted(key=bytes), False),
        (counted(store="t"), False),
        (counted(store=Materialized("s", logged=False)), False),
        (counted(to="elsewhere"), False),
    ],
)
def test_the_fingerprint_covers_structure_and_names_but_not_functions(change: Change, same: bool) -> None:
    assert (build(change).fingerprint == build(counted()).fingerprint) is same


def test_the_fingerprint_is_the_same_in_another_process() -> None:
    script = "from examples.orders import topology; print(topology.fingerprint.hex())"
    other = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert other.stdout.strip() == orders.fingerprint.hex()
    assert len(orders.fingerprint) == 8


def small() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(materialized="s").to_stream().to("out")
    return builder.build()


def test_the_mermaid_picture() -> None:
    assert small().mermaid() == (
        "flowchart LR\n"
        '    n2(["in"]):::topic\n'
        '    n6(["out"]):::topic\n'
        '    subgraph sub0 ["Sub-topology 0"]\n'
        '        n0["KSTREAM-SOURCE-0000000000"]:::step\n'
        '        n1["KSTREAM-AGGREGATE-0000000001"]:::stateful\n'
        '        n3["KTABLE-TOSTREAM-0000000002"]:::step\n'
        '        n5["KSTREAM-SINK-0000000003"]:::step\n'
        '        n4[("s")]:::store\n'
        "    end\n"
        "    n0 --> n1\n"
        "    n2 --> n0\n"
        "    n1 --> n3\n"
        "    n3 --> n5\n"
        "    n5 --> n6\n"
        "    n1 --- n4\n"
        "    classDef topic fill:#e8f1fb,stroke:#3b73b9\n"
        "    classDef step fill:#ffffff,stroke:#888888\n"
        "    classDef stateful fill:#fff4d6,stroke:#b98a1d\n"
        "    classDef store fill:#fde9c9,stroke:#b98a1d\n"
    )


def test_a_repartition_topic_links_the_boxes_of_the_picture() -> None:
    lines = [line.strip() for line in orders.mermaid().splitlines()]
    (topic,) = [line.split("(")[0] for line in lines if '(["product-revenue-repartition"])' in line]
    (writer,) = [line.split("[")[0] for line in lines if '["product-revenue-repartition-sink"]' in line]
    (reader,) = [line.split("[")[0] for line in lines if '["product-revenue-repartition-source"]' in line]
    assert f"{writer} --> {topic}" in lines
    assert f"{topic} --> {reader}" in lines


def test_the_graphviz_picture() -> None:
    lines = small().dot().splitlines()
    assert lines[0] == "digraph topology {"
    assert lines[-1] == "}"
    assert '        n4 [label="s", shape=cylinder, style=filled, fillcolor="#fde9c9", color="#b98a1d"];' in lines
    assert "    n0 -> n1;" in lines
    assert "    n1 -> n4 [dir=none];" in lines


def test_the_topology_as_data() -> None:
    data = json.loads(json.dumps(small().as_data()))
    assert data["fingerprint"] == small().fingerprint.hex()
    (sub,) = data["subtopologies"]
    assert (sub["source_topics"], sub["sink_topics"]) == (["in"], ["out"])
    assert sub["stores"] == [{"name": "s", "logged": True, "cached": True}]
    assert [(node["kind"], node["successors"]) for node in sub["nodes"]][:2] == [
        ("Source", ["KSTREAM-AGGREGATE-0000000001"]),
        ("Count", ["KTABLE-TOSTREAM-0000000002"]),
    ]


def test_importing_the_package_loads_neither_the_dsl_nor_json() -> None:
    heavy = ("orjson", "kstreams_worker.topology", "state")
    script = f"import sys, kstreams_worker; print([name for name in {heavy} if name in sys.modules])"
    other = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert other.stdout.strip() == "[]"
