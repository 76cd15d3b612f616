"""A built topology: its sub-topologies, what each reads, writes and keeps, and a fingerprint that workers compare.

A sub-topology is what one task runs: all steps that are connected by streams or by a shared store. Repartition topics
are where the connection is cut. They are numbered by the order of their first source, as Kafka Streams does, so that
task ids mean the same in both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kstreams_worker.topology import describe
from kstreams_worker.topology.graph import Store
from kstreams_worker.topology.nodes import Node, RepartitionTopic, SinkNode, SourceNode
from state.spec import StoreSpec


@dataclass(frozen=True)
class SubTopology:
    """One connected part. Its tasks are `(id, partition)`, one per partition of its largest source topic."""

    id: int
    nodes: tuple[Node, ...]
    """In the order they were added: parents before children."""
    store_definitions: tuple[Store, ...]

    @cached_property
    def source_topics(self) -> tuple[str, ...]:
        """The topics it reads that exist outside the application."""
        return tuple(sorted({topic for node in self._sources if not node.repartition for topic in node.topics}))

    @cached_property
    def repartition_sources(self) -> tuple[RepartitionTopic, ...]:
        return tuple(node.repartition for node in self._sources if node.repartition)

    @cached_property
    def sink_topics(self) -> tuple[str, ...]:
        """The topics it writes that exist outside the application."""
        return tuple(sorted({node.topic for node in self._sinks if not node.repartition}))

    @cached_property
    def repartition_sinks(self) -> tuple[RepartitionTopic, ...]:
        return tuple(node.repartition for node in self._sinks if node.repartition)

    @cached_property
    def stores(self) -> tuple[StoreSpec, ...]:
        return tuple(store.spec for store in self.store_definitions)

    @property
    def is_stateful(self) -> bool:
        return bool(self.store_definitions)

    @property
    def _sources(self) -> list[SourceNode]:
        return [node for node in self.nodes if isinstance(node, SourceNode)]

    @property
    def _sinks(self) -> list[SinkNode]:
        return [node for node in self.nodes if isinstance(node, SinkNode)]


@dataclass(frozen=True)
class Topology:
    """What StreamsBuilder.build() returns. Immutable; equal programs have equal fingerprints in every process."""

    subtopologies: tuple[SubTopology, ...]

    @cached_property
    def source_topics(self) -> tuple[str, ...]:
        """All topics read that exist outside the application."""
        return tuple(sorted({topic for sub in self.subtopologies for topic in sub.source_topics}))

    @cached_property
    def sink_topics(self) -> tuple[str, ...]:
        """All topics written that exist outside the application."""
        return tuple(sorted({topic for sub in self.subtopologies for topic in sub.sink_topics}))

    @cached_property
    def fingerprint(self) -> bytes:
        """Eight bytes over structure, topics, stores and serdes; what functions do is not part of it."""
        lines = []
        for sub in self.subtopologies:
            lines.append(f"sub-topology {sub.id}")
            for node in sub.nodes:
                parents = ",".join(parent.name for parent in node.parents)
                facts = (type(node).__name__, node.name, parents, ",".join(node.stores), *node.traits)
                lines.append("\x1f".join(facts))
            for store in sub.store_definitions:
                facts = ("store", store.spec.name, store.key.name, store.value.name, str(store.spec.logged))
                lines.append("\x1f".join(facts))
        return hashlib.blake2b("\n".join(lines).encode(), digest_size=8).digest()

    def describe(self) -> str:
        """The text that Kafka Streams' Topology.describe() prints, so that existing viewers can show it."""
        return describe.text(self.subtopologies)

    def mermaid(self) -> str:
        """A Mermaid flow chart, which GitHub and many editors draw."""
        return describe.mermaid(self.subtopologies)

    def dot(self) -> str:
        """A Graphviz picture."""
        return describe.dot(self.subtopologies)

    def as_data(self) -> dict[str, Any]:
        """Everything the pictures show, as plain data to be written as JSON."""
        return {"fingerprint": self.fingerprint.hex(), "subtopologies": describe.data(self.subtopologies)}


def partition(nodes: Mapping[str, Node], stores: Mapping[str, Store]) -> tuple[SubTopology, ...]:
    """Groups nodes into sub-topologies: union-find over streams and shared stores."""
    leader = {name: name for name in nodes}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    user_of_store: dict[str, str] = {}
    for node in nodes.values():
        for parent in node.parents:
            leader[find(node.name)] = find(parent.name)
        for store in node.stores:
            leader[find(node.name)] = find(user_of_store.setdefault(store, node.name))

    groups: dict[str, list[Node]] = {}
    for node in nodes.values():
        if isinstance(node, SourceNode):
            groups.setdefault(find(node.name), [])
    for node in nodes.values():
        groups[find(node.name)].append(node)
    return tuple(
        SubTopology(
            id=number,
            nodes=tuple(members),
            store_definitions=tuple(stores[name] for name in dict.fromkeys(s for node in members for s in node.stores)),
        )
        for number, members in enumerate(groups.values())
    )
