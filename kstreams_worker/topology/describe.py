"""Pictures of a topology: the text form of Kafka Streams, and Mermaid.

The text is exact to the character, orders included, because people paste it into viewers made for Kafka Streams.
Its node order: the larger the tree below a node the earlier it comes, then by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

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


_CLASSES = """\
    classDef topic fill:#e8f1fb,stroke:#3b73b9
    classDef step fill:#ffffff,stroke:#888888
    classDef stateful fill:#fff4d6,stroke:#b98a1d
    classDef store fill:#fde9c9,stroke:#b98a1d
"""


def mermaid(subtopologies: Sequence[SubTopology]) -> str:
    """Topics and stores as shapes of their own, one box per sub-topology, coloured by kind."""
    ids: dict[str, str] = {}

    def identify(what: str) -> str:
        return ids.setdefault(what, f"n{len(ids)}")

    shapes: dict[str, str] = {}
    edges: list[str] = []
    boxes: list[str] = []
    for sub in subtopologies:
        box = [f'    subgraph sub{sub.id} ["Sub-topology {sub.id}"]']
        for node in sub.nodes:
            me = identify(f"node {node.name}")
            kind = "stateful" if node.stores else "step"
            box.append(f'        {me}["{node.name}"]:::{kind}')
            edges += [f"    {me} --> {identify(f'node {child.name}')}" for child in node.children]
            read = node.topics if isinstance(node, SourceNode) else ()
            written = (node.topic,) if isinstance(node, SinkNode) else ()
            for topic in (*read, *written):
                shape = identify(f"topic {topic}")
                shapes[shape] = f'    {shape}(["{topic}"]):::topic'
                edges.append(f"    {shape} --> {me}" if read else f"    {me} --> {shape}")
            edges += [f"    {me} --- {identify(f'store {store}')}" for store in node.stores]
        for store in sub.store_definitions:
            changelog = "<br/>changelog" if store.spec.logged else ""
            box.append(f'        {identify(f"store {store.spec.name}")}[("{store.spec.name}{changelog}")]:::store')
        box.append("    end")
        boxes += box
    lines = ["flowchart LR", *shapes.values(), *boxes, *edges]
    return "\n".join(lines) + "\n" + _CLASSES
