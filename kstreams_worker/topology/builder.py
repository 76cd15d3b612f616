"""StreamsBuilder: where a topology starts, and where it is checked as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from kstreams_worker.errors import TopologyError
from kstreams_worker.topology.checks import call_site, check_name, check_topic
from kstreams_worker.topology.form import Form, Materialized
from kstreams_worker.topology.graph import Graph
from kstreams_worker.topology.kstream import KStream
from kstreams_worker.topology.ktable import KTable, keep
from kstreams_worker.topology.nodes import ProcessNode, SinkNode, SourceNode, TableSourceNode
from kstreams_worker.topology.serdes import Serde, SerdeLike, serde_of
from kstreams_worker.topology.topology import SubTopology, Topology, partition


class StreamsBuilder:
    """Reads topics as streams or tables; `build()` gives the Topology.

        builder = StreamsBuilder()
        orders = builder.stream("orders", key=str, value="json")
        orders.group_by_key().count().to_stream().to("orders-per-customer")
        topology = builder.build()

    Every mistake raises TopologyError with the file and line of the call that made it.
    """

    def __init__(self) -> None:
        self._graph = Graph()
        self._sources: dict[tuple[str, ...], SourceNode] = {}

    def stream(
        self,
        topics: str | Iterable[str],
        *,
        key: SerdeLike = bytes,
        value: SerdeLike = bytes,
        name: str | None = None,
    ) -> KStream:
        """The records of one or several topics, each record for itself."""
        location = call_site()
        wanted = [topics] if isinstance(topics, str) else list(topics)
        if not wanted:
            raise TopologyError("stream() needs at least one topic", location)
        key, value = serde_of(key, location), serde_of(value, location)
        source_name = self._graph.node_name(name, "KSTREAM-SOURCE-", location)
        source = self._source(source_name, wanted, key, value, location)
        return KStream(self._graph, source, Form(key), Form(value))

    def table(
        self,
        topic: str,
        *,
        key: SerdeLike = bytes,
        value: SerdeLike = bytes,
        materialized: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """The newest value of each key of a topic. A null value deletes its key; records without a key are ignored."""
        location = call_site()
        store = Materialized.of(materialized)
        reserved = store.name or self._graph.number(f"{topic}-STATE-STORE-")
        key, value = serde_of(key, location), serde_of(value, location)
        source_name = self._graph.node_name(f"{name}-source" if name else None, "KSTREAM-SOURCE-", location)
        table_name = self._graph.node_name(name, "KTABLE-SOURCE-", location)
        source = self._source(source_name, [topic], key, value, location)
        node = TableSourceNode(
            name=table_name, location=location, key=key, value=value, reserved_store=reserved, options=store
        )
        if materialized is not None:
            keep(self._graph, node, store, reserved)
        self._graph.add(node, [source])
        return KTable(self._graph, node, Form(key), Form(value))

    def add_state_store(
        self, name: str, *, key: SerdeLike = bytes, value: SerdeLike = bytes, logged: bool = True
    ) -> None:
        """A key-value store for processors; `process(..., stores=[name])` connects it."""
        location = call_site()
        check_name(name, "store", location)
        self._graph.add_store(
            name, serde_of(key, location), serde_of(value, location), location, table=False, logged=logged
        )

    def build(self) -> Topology:
        """The finished topology, checked as a whole. Nothing can be added afterwards."""
        location = call_site()
        if not self._graph.nodes:
            raise TopologyError("the topology is empty: nothing reads a topic", location)
        self._check_sources()
        self._check_stores()
        subtopologies = partition(self._graph.nodes, self._graph.stores)
        for sub in subtopologies:
            _check_loops(sub)
        self._graph.built_at = location
        return Topology(subtopologies)

    def _source(self, name: str, topics: list[str], key: Serde, value: Serde, location: str) -> SourceNode:
        """The node that reads these topics: the same one when they are read twice."""
        wanted = tuple(sorted({check_topic(topic, location) for topic in topics}))
        for read, source in self._sources.items():
            shared = sorted(set(read) & set(wanted))
            if shared and (source.key, source.value) != (key, value):
                raise TopologyError(
                    f"topic {shared[0]!r} is already read at {source.location} with key={source.key.name}, "
                    f"value={source.value.name}; here with key={key.name}, value={value.name}",
                    location,
                )
            if read == wanted:
                return source
            if shared:
                raise TopologyError(
                    f"topic {shared[0]!r} is already read at {source.location} together with other topics; "
                    "read it once and use the stream twice",
                    location,
                )
        source = SourceNode(name=name, location=location, topics=wanted, key=key, value=value)
        self._graph.add(source)
        self._sources[wanted] = source
        return source

    def _check_sources(self) -> None:
        for topics, source in self._sources.items():
            if not source.children:
                raise TopologyError(f"nothing is done with the records of {', '.join(topics)}", source.location)

    def _check_stores(self) -> None:
        used: set[str] = set()
        for node in self._graph.nodes.values():
            used.update(node.stores)
            if isinstance(node, ProcessNode):
                for name in node.stores:
                    if name not in self._graph.stores:
                        known = ", ".join(sorted(self._graph.stores)) or "none"
                        raise TopologyError(
                            f"process() uses the store {name!r}, which does not exist (known: {known}); "
                            f"add it: builder.add_state_store({name!r}, ...)",
                            node.location,
                        )
        for name, store in self._graph.stores.items():
            if name not in used:
                raise TopologyError(f"no process() uses the store {name!r}", store.location)


def _check_loops(sub: SubTopology) -> None:
    for node in sub.nodes:
        if isinstance(node, SinkNode) and node.topic in sub.source_topics:
            raise TopologyError(
                f"to({node.topic!r}) writes to a topic that the same sub-topology reads: records would go round for ever",
                node.location,
            )
