"""The graph under construction: nodes and stores by name, numbered the way Kafka Streams numbers them.

Names matter beyond looks: a store's name is part of its changelog's name, so the same program must give the same names
on every run and in every version of this library. Each step takes the next number even when the user names it, which
keeps the generated names of the steps after it stable when a name is added.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kstreams_worker.errors import TopologyError
from kstreams_worker.topology.checks import check_name
from kstreams_worker.topology.nodes import KeyPresentNode, Node, RepartitionTopic, SinkNode, SourceNode
from kstreams_worker.topology.serdes import Serde
from state.spec import Codec, StoreSpec


@dataclass(frozen=True, slots=True)
class Store:
    """A state store of the topology. `table`: it holds a table, so that only its own step may write to it."""

    spec: StoreSpec
    key: Serde
    value: Serde
    location: str
    table: bool


@dataclass(frozen=True, slots=True)
class CutSteps:
    """Names of the steps around a repartition topic; `filter` drops records without a key (None: there is no filter)."""

    sink: str
    filter: str | None
    source: str
    location: str


class Graph:
    """Nodes in the order they were added. Used by one StreamsBuilder; adding checks names, not meaning."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.stores: dict[str, Store] = {}
        self.built_at: str | None = None
        """The call that built the topology; nothing is added after it."""
        self._repartitions: dict[str, str] = {}
        """Name of each repartition topic -> the call that made it."""
        self._next_number = 0

    def number(self, prefix: str) -> str:
        """The prefix and the next number: `KSTREAM-FILTER-0000000001`."""
        name = f"{prefix}{self._next_number:010d}"
        self._next_number += 1
        return name

    def node_name(self, given: str | None, prefix: str, location: str) -> str:
        """The name of a step: the user's, or a numbered one. Takes a number either way."""
        numbered = self.number(prefix)
        return numbered if given is None else check_name(given, "step", location)

    def add(self, node: Node, parents: Iterable[Node] = ()) -> None:
        if self.built_at is not None:
            raise TopologyError(f"the topology was already built, at {self.built_at}", node.location)
        earlier = self.nodes.get(node.name)
        if earlier is not None:
            raise TopologyError(
                f"the name {node.name!r} is taken by the step at {earlier.location}; names are unique", node.location
            )
        self.nodes[node.name] = node
        for parent in parents:
            if parent not in node.parents:
                node.parents.append(parent)
                parent.children.append(node)

    def add_store(
        self,
        name: str,
        key: Serde,
        value: Serde,
        location: str,
        *,
        table: bool,
        logged: bool = True,
        cached: bool = True,
    ) -> None:
        check_name(name, "store", location)
        earlier = self.stores.get(name)
        if earlier is not None:
            raise TopologyError(
                f"the store {name!r} already exists, made at {earlier.location}; store names are unique", location
            )
        try:
            spec = StoreSpec(
                name=name,
                key=Codec(key.encode, key.decode),
                value=Codec(value.encode, value.decode),
                logged=logged,
                cached=cached,
            )
        except ValueError as error:
            raise TopologyError(str(error), location) from None
        self.stores[name] = Store(spec, key, value, location, table)

    def add_repartition(
        self, parent: Node, topic: RepartitionTopic, serdes: tuple[Serde, Serde], steps: CutSteps
    ) -> SourceNode:
        """Cuts the topology at an internal topic and returns the node that reads it."""
        location = steps.location
        check_name(topic.name, "repartition topic", location)
        earlier = self._repartitions.get(topic.name)
        if earlier is not None:
            raise TopologyError(f"the repartition topic {topic.name!r} already exists, made at {earlier}", location)
        self._repartitions[topic.name] = location
        key, value = serdes
        if steps.filter is not None:
            present = KeyPresentNode(name=steps.filter, location=location)
            self.add(present, [parent])
            parent = present
        sink = SinkNode(name=steps.sink, location=location, topic=topic.title, key=key, value=value, repartition=topic)
        self.add(sink, [parent])
        source = SourceNode(
            name=steps.source, location=location, topics=(topic.title,), key=key, value=value, repartition=topic
        )
        self.add(source)
        return source

    def cut_steps(self, topic_name: str, location: str, *, numbered: bool) -> CutSteps:
        """Names for the steps around a repartition topic of a stream: after the topic, unless that is `numbered` itself."""
        numbers = self.number("KSTREAM-SINK-"), self.number("KSTREAM-FILTER-"), self.number("KSTREAM-SOURCE-")
        if numbered:
            return CutSteps(*numbers, location)
        title = RepartitionTopic(topic_name).title
        return CutSteps(f"{title}-sink", f"{title}-filter", f"{title}-source", location)
