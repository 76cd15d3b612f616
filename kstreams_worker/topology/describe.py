"""Pictures of a topology: the text form of Kafka Streams, Mermaid, Graphviz, and plain data for tools.

The text is exact to the character, orders included, because people paste it into viewers made for Kafka Streams.
Its node order: the larger the tree below a node the earlier it comes, then by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kstreams_worker.topology.nodes import Node, SinkNode, SourceNode

if TYPE_CHECKING:
    from kstreams_worker.topology.topology import SubTopology


def text(subtopologies: Sequence[SubTopology]) -> str:
    parts = ["Topologies:\n "]
    parts += [f"  Sub-topology: {sub.id}\n{_nodes_text(sub.nodes)}\n" for sub in subtopologies]
    return "".join(parts)


def _nodes_text(nodes: Sequence[Node]) -> str:
    sizes = _tree_sizes(nodes)

    def ordered(some: Iterable[Node]) -> list[Node]:
        return sorted(some, key=lambda node: (-sizes[node.name], node.name))

    def names(some: Iterable[Node]) -> str:
        return ", ".join(node.name for node in ordered(some)) or "none"

    lines = []
    for node in ordered(nodes):
        if isinstance(node, SourceNode):
            lines.append(f"Source: {node.name} (topics: [{', '.join(node.topics)}])")
        elif isinstance(node, SinkNode):
            lines.append(f"Sink: {node.name} (topic: {node.topic})")
        else:
            lines.append(f"Processor: {node.name} (stores: [{', '.join(sorted(node.stores))}])")
        if not isinstance(node, SinkNode):
            lines.append(f"  --> {names(node.children)}")
        if not isinstance(node, SourceNode):
            lines.append(f"  <-- {names(node.parents)}")
    return "".join(f"    {line}\n" for line in lines)


def _tree_sizes(nodes: Sequence[Node]) -> dict[str, int]:
    """Nodes below each node, itself included; one that is reached by two paths counts twice."""
    sizes: dict[str, int] = {}
    for node in reversed(nodes):
        sizes[node.name] = 1 + sum(sizes[child.name] for child in node.children)
    return sizes


@dataclass(slots=True)
class _Shapes:
    """A topology as shapes with short ids: steps and stores by sub-topology, topics outside of them."""

    ids: dict[str, str] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    """Id -> topic."""
    boxes: dict[int, list[tuple[str, str, str]]] = field(default_factory=dict)
    """Sub-topology -> `(id, kind, label)`, the kind being step, stateful or store."""
    flows: list[tuple[str, str]] = field(default_factory=list)
    store_uses: list[tuple[str, str]] = field(default_factory=list)

    def identify(self, thing: str) -> str:
        return self.ids.setdefault(thing, f"n{len(self.ids)}")


def _shapes(subtopologies: Sequence[SubTopology]) -> _Shapes:
    shapes = _Shapes()
    for sub in subtopologies:
        box = shapes.boxes[sub.id] = []
        for node in sub.nodes:
            me = shapes.identify(f"node {node.name}")
            box.append((me, "stateful" if node.stores else "step", node.name))
            shapes.flows += [(me, shapes.identify(f"node {child.name}")) for child in node.children]
            read = node.topics if isinstance(node, SourceNode) else ()
            written = (node.topic,) if isinstance(node, SinkNode) else ()
            for topic in (*read, *written):
                shape = shapes.identify(f"topic {topic}")
                shapes.topics[shape] = topic
                shapes.flows.append((shape, me) if read else (me, shape))
            shapes.store_uses += [(me, shapes.identify(f"store {store}")) for store in node.stores]
        box += [(shapes.identify(f"store {spec.name}"), "store", spec.name) for spec in sub.stores]
    return shapes


def mermaid(subtopologies: Sequence[SubTopology]) -> str:
    """Topics and stores as shapes of their own, one box per sub-topology, coloured by kind."""
    shapes = _shapes(subtopologies)
    lines = ["flowchart LR", *(f'    {id_}(["{topic}"]):::topic' for id_, topic in shapes.topics.items())]
    for number, box in shapes.boxes.items():
        lines.append(f'    subgraph sub{number} ["Sub-topology {number}"]')
        for id_, kind, label in box:
            shape = f'[("{label}")]' if kind == "store" else f'["{label}"]'
            lines.append(f"        {id_}{shape}:::{kind}")
        lines.append("    end")
    lines += [f"    {start} --> {end}" for start, end in shapes.flows]
    lines += [f"    {step} --- {store}" for step, store in shapes.store_uses]
    lines += [f"    classDef {kind} fill:{fill},stroke:{stroke}" for kind, (fill, stroke) in _COLOURS.items()]
    return "\n".join(lines) + "\n"


def dot(subtopologies: Sequence[SubTopology]) -> str:
    """The same picture for Graphviz."""
    shapes = _shapes(subtopologies)

    def drawn(id_: str, kind: str, label: str) -> str:
        fill, stroke = _COLOURS[kind]
        shape = {"store": "cylinder", "topic": "cds"}.get(kind, "box")
        return f'{id_} [label="{label}", shape={shape}, style=filled, fillcolor="{fill}", color="{stroke}"];'

    lines = ["digraph topology {", "    rankdir=LR;"]
    lines += [f"    {drawn(id_, 'topic', topic)}" for id_, topic in shapes.topics.items()]
    for number, box in shapes.boxes.items():
        lines += [f"    subgraph cluster_{number} {{", f'        label="Sub-topology {number}";']
        lines += [f"        {drawn(*shape)}" for shape in box]
        lines.append("    }")
    lines += [f"    {start} -> {end};" for start, end in shapes.flows]
    lines += [f"    {step} -> {store} [dir=none];" for step, store in shapes.store_uses]
    return "\n".join([*lines, "}"]) + "\n"


_COLOURS = {
    "topic": ("#e8f1fb", "#3b73b9"),
    "step": ("#ffffff", "#888888"),
    "stateful": ("#fff4d6", "#b98a1d"),
    "store": ("#fde9c9", "#b98a1d"),
}


def data(subtopologies: Sequence[SubTopology]) -> list[dict[str, Any]]:
    """Sub-topologies as plain data, to be written as JSON."""
    return [
        {
            "id": sub.id,
            "source_topics": list(sub.source_topics),
            "sink_topics": list(sub.sink_topics),
            "repartition_sources": [topic.title for topic in sub.repartition_sources],
            "repartition_sinks": [topic.title for topic in sub.repartition_sinks],
            "stores": [{"name": spec.name, "logged": spec.logged, "cached": spec.cached} for spec in sub.stores],
            "nodes": [
                {
                    "name": node.name,
                    "kind": type(node).__name__.removesuffix("Node"),
                    "location": node.location,
                    "successors": [child.name for child in node.children],
                    "stores": list(node.stores),
                    **({"topics": list(node.topics)} if isinstance(node, SourceNode) else {}),
                    **({"topic": node.topic} if isinstance(node, SinkNode) else {}),
                }
                for node in sub.nodes
            ],
        }
        for sub in subtopologies
    ]
