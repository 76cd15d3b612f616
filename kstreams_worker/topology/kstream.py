"""KStream and KGroupedStream: the steps on a stream of records.

The functions given to these steps are called once per record, with the decoded key and value (`None` where null). They
must not change what they are given in place: branches share it, and unchanged values are written as the bytes they were
read as. The exception is an aggregate, which its aggregator may change and return.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kstreams_worker.errors import TopologyError
from kstreams_worker.topology.checks import accepts, call_site, check_function, check_topic
from kstreams_worker.topology.form import Form
from kstreams_worker.topology.graph import Graph
from kstreams_worker.topology.kgrouped import KGroupedStream
from kstreams_worker.topology.nodes import (
    BranchNode,
    FilterNode,
    FlatMapNode,
    FlatMapValuesNode,
    MapNode,
    MapValuesNode,
    MergeNode,
    Node,
    PeekNode,
    ProcessNode,
    RepartitionTopic,
    SelectKeyNode,
    SinkNode,
    SplitNode,
)
from kstreams_worker.topology.serdes import SerdeLike

if TYPE_CHECKING:
    from kstreams_worker.topology.processor import Processor, ProcessorContext


class KStream:
    """A stream of records. Made by StreamsBuilder.stream() and by the steps below, each returning a new stream."""

    def __init__(self, graph: Graph, node: Node, key: Form, value: Form, rekeyed: bool = False) -> None:
        self._graph = graph
        self._node = node
        self._key = key
        self._value = value
        self._rekeyed = rekeyed
        """Whether records may no longer be in the partition of their key."""

    # Steps that keep the key

    def filter(self, predicate: Callable[[Any, Any], object], *, name: str | None = None) -> KStream:
        """The records for which `predicate(key, value)` is true."""
        return self._filter("filter()", predicate, False, name)

    def filter_not(self, predicate: Callable[[Any, Any], object], *, name: str | None = None) -> KStream:
        """The records for which `predicate(key, value)` is false."""
        return self._filter("filter_not()", predicate, True, name)

    def _filter(self, step: str, predicate: Callable[[Any, Any], object], negated: bool, name: str | None) -> KStream:
        location = call_site()
        check_function(predicate, step, 2, location)
        name = self._graph.node_name(name, "KSTREAM-FILTER-", location)
        return self._then(FilterNode(name=name, location=location, predicate=predicate, negated=negated))

    def map_values(
        self, mapper: Callable[..., Any], *, value: SerdeLike | None = None, name: str | None = None
    ) -> KStream:
        """Each value replaced by `mapper(value)`, or by `mapper(key, value)` if it takes two."""
        location = call_site()
        takes_key = takes_key_too(mapper, "map_values()", location)
        name = self._graph.node_name(name, "KSTREAM-MAPVALUES-", location)
        node = MapValuesNode(name=name, location=location, mapper=mapper, takes_key=takes_key)
        return self._then(node, value=self._value.changed(value, "map_values()", location))

    def flat_map_values(
        self, mapper: Callable[..., Iterable[Any]], *, value: SerdeLike | None = None, name: str | None = None
    ) -> KStream:
        """Each record replaced by one per value that `mapper(value)`, or `mapper(key, value)`, returns or yields."""
        location = call_site()
        takes_key = takes_key_too(mapper, "flat_map_values()", location)
        name = self._graph.node_name(name, "KSTREAM-FLATMAPVALUES-", location)
        node = FlatMapValuesNode(name=name, location=location, mapper=mapper, takes_key=takes_key)
        return self._then(node, value=self._value.changed(value, "flat_map_values()", location))

    def peek(self, action: Callable[[Any, Any], object], *, name: str | None = None) -> KStream:
        """Calls `action(key, value)` and passes the record on. After a failure it may be called for a record again."""
        location = call_site()
        check_function(action, "peek()", 2, location)
        name = self._graph.node_name(name, "KSTREAM-PEEK-", location)
        return self._then(PeekNode(name=name, location=location, action=action))

    # Steps that give a new key

    def map(
        self,
        mapper: Callable[[Any, Any], tuple[Any, Any]],
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KStream:
        """Each record replaced by the pair that `mapper(key, value)` returns."""
        location = call_site()
        check_function(mapper, "map()", 2, location)
        name = self._graph.node_name(name, "KSTREAM-MAP-", location)
        return self._rekey(MapNode(name=name, location=location, mapper=mapper), "map()", key, value)

    def flat_map(
        self,
        mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]],
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KStream:
        """Each record replaced by the pairs that `mapper(key, value)` returns or yields."""
        location = call_site()
        check_function(mapper, "flat_map()", 2, location)
        name = self._graph.node_name(name, "KSTREAM-FLATMAP-", location)
        return self._rekey(FlatMapNode(name=name, location=location, mapper=mapper), "flat_map()", key, value)

    def select_key(
        self, selector: Callable[[Any, Any], Any], *, key: SerdeLike | None = None, name: str | None = None
    ) -> KStream:
        """Each record under the key that `selector(key, value)` returns."""
        return self._select_key("select_key()", selector, key, name)

    def _select_key(
        self, step: str, selector: Callable[[Any, Any], Any], key: SerdeLike | None, name: str | None
    ) -> KStream:
        location = call_site()
        check_function(selector, step, 2, location)
        name = self._graph.node_name(name, "KSTREAM-KEY-SELECT-", location)
        node = SelectKeyNode(name=name, location=location, selector=selector)
        return self._then(node, key=self._key.forgotten(key, step, location), rekeyed=True)

    # Steps that join and part streams

    def merge(self, other: KStream, *, name: str | None = None) -> KStream:
        """The records of both streams, which must have the same serdes. Nothing is said about their order."""
        location = call_site()
        if not isinstance(other, KStream):
            raise TopologyError(f"merge() takes a KStream, got {type(other).__name__}", location)
        if other._graph is not self._graph:
            raise TopologyError("merge() got a stream of another StreamsBuilder", location)
        for what, mine, theirs in (("key", self._key, other._key), ("value", self._value, other._value)):
            if mine.serde != theirs.serde:
                names = [form.serde.name if form.serde else "unknown" for form in (mine, theirs)]
                raise TopologyError(
                    f"merge() of streams with different {what} serdes: {names[0]} and {names[1]}", location
                )
        name = self._graph.node_name(name, "KSTREAM-MERGE-", location)
        node = MergeNode(name=name, location=location, key=self._key.serde)
        self._graph.add(node, [self._node, other._node])
        return KStream(self._graph, node, self._key, self._value, self._rekeyed or other._rekeyed)

    def split(
        self,
        branches: Mapping[str, Callable[[Any, Any], object]],
        *,
        default: str | None = None,
        name: str | None = None,
    ) -> dict[str, KStream]:
        """Sends each record to the first branch whose `predicate(key, value)` is true; to `default`, if named, when none is.

        sizes = orders.split({"large": lambda key, value: value["amount"] > 1000}, default="small")
        sizes["large"].to("large-orders")
        """
        location = call_site()
        if not branches or default in branches:
            raise TopologyError("split() needs at least one branch, and a default by another name", location)
        for branch, predicate in branches.items():
            check_function(predicate, f"split()[{branch!r}]", 2, location)
        name = self._graph.node_name(name, "KSTREAM-BRANCH-", location)
        outcomes = [*branches.items(), *([(default, None)] if default is not None else [])]
        split = SplitNode(name=name, location=location, predicates=tuple(predicate for _, predicate in outcomes))
        self._graph.add(split, [self._node])
        streams = {}
        for branch, _ in outcomes:
            self._graph.number("")
            node = BranchNode(name=f"{name}-{branch}", location=location)
            self._graph.add(node, [split])
            streams[branch] = KStream(self._graph, node, self._key, self._value, self._rekeyed)
        return streams

    # The way out

    def to(
        self, topic: str, *, key: SerdeLike | None = None, value: SerdeLike | None = None, name: str | None = None
    ) -> None:
        """Writes the records to a topic, by the stream's serdes or the ones named here."""
        location = call_site()
        check_topic(topic, location)
        step = f"to({topic!r})"
        node = SinkNode(
            name=self._graph.node_name(name, "KSTREAM-SINK-", location),
            location=location,
            topic=topic,
            key=self._key.named(key, location).needed("key", step, location),
            value=self._value.named(value, location).needed("value", step, location),
        )
        self._graph.add(node, [self._node])

    def for_each(self, action: Callable[[Any, Any], object], *, name: str | None = None) -> None:
        """Calls `action(key, value)`; the stream ends here. After a failure it may be called for a record again."""
        location = call_site()
        check_function(action, "for_each()", 2, location)
        name = self._graph.node_name(name, "KSTREAM-FOREACH-", location)
        self._graph.add(PeekNode(name=name, location=location, action=action), [self._node])

    def process(
        self,
        processor: Callable[[], Processor] | Callable[[Any, Any, ProcessorContext], object],
        *,
        stores: Iterable[str] = (),
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KStream:
        """The records that a user's own processor forwards.

        Either a function of `(key, value, context)`, or a Processor class (anything that makes one when called), of which
        each task gets its own. `stores` are names of stores it may use: those of add_state_store() to read and write,
        those of tables to read. `key` and `value` are the serdes of what it forwards.
        """
        location = call_site()
        if not callable(processor):
            raise TopologyError(f"process() needs a function or a Processor class, got {processor!r}", location)
        is_factory = isinstance(processor, type) or accepts(processor, 0)
        check_function(processor, "process()", 0 if is_factory else 3, location)
        names = [stores] if isinstance(stores, str) else list(stores)
        name = self._graph.node_name(name, "KSTREAM-PROCESSOR-", location)
        node = ProcessNode(
            name=name, location=location, processor=processor, is_factory=is_factory, connected_stores=tuple(names)
        )
        self._graph.add(node, [self._node])
        return KStream(
            self._graph,
            node,
            self._key.forgotten(key, "process()", location),
            self._value.forgotten(value, "process()", location),
            rekeyed=True,
        )

    # Grouping

    def repartition(
        self,
        *,
        partitions: int | None = None,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KStream:
        """The records by way of an internal topic, so that each is in its key's partition. Null keys are dropped.

        `partitions` None: as many as the largest input has.
        """
        location = call_site()
        if partitions is not None and (not isinstance(partitions, int) or partitions < 1):
            raise TopologyError(f"repartition() needs at least one partition, got {partitions!r}", location)
        key_form, value_form = self._key.named(key, location), self._value.named(value, location)
        serdes = (
            key_form.needed("key", "repartition()", location),
            value_form.needed("value", "repartition()", location),
        )
        topic_name = name if name is not None else self._graph.number("KSTREAM-REPARTITION-")
        steps = self._graph.cut_steps(topic_name, location, numbered=name is None)
        source = self._graph.add_repartition(self._node, RepartitionTopic(topic_name, partitions), serdes, steps)
        return KStream(self._graph, source, key_form, value_form)

    def group_by_key(
        self, *, key: SerdeLike | None = None, value: SerdeLike | None = None, name: str | None = None
    ) -> KGroupedStream:
        """Groups records by their key. After a step that gave new keys they go through a repartition topic first.

        `name` names that topic, which all aggregations of this group then share; without it each has its own.
        """
        return self._grouped("group_by_key()", self, key, value, name)

    def group_by(
        self,
        selector: Callable[[Any, Any], Any],
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KGroupedStream:
        """Groups records by `selector(key, value)`, whose serde is `key`. They go through a repartition topic."""
        return self._grouped("group_by()", self._select_key("group_by()", selector, key, name), key, value, name)

    def _grouped(
        self, step: str, stream: KStream, key: SerdeLike | None, value: SerdeLike | None, name: str | None
    ) -> KGroupedStream:
        location = call_site()
        key_form, value_form = stream._key.named(key, location), stream._value.named(value, location)
        key_form.needed("key", step, location)
        return KGroupedStream(self._graph, stream._node, key_form, value_form, rekeyed=stream._rekeyed, name=name)

    def _then(
        self, node: Node, *, key: Form | None = None, value: Form | None = None, rekeyed: bool = False
    ) -> KStream:
        self._graph.add(node, [self._node])
        return KStream(self._graph, node, key or self._key, value or self._value, self._rekeyed or rekeyed)

    def _rekey(self, node: Node, step: str, key: SerdeLike | None, value: SerdeLike | None) -> KStream:
        return self._then(
            node,
            key=self._key.forgotten(key, step, node.location),
            value=self._value.changed(value, step, node.location),
            rekeyed=True,
        )


def takes_key_too(mapper: Callable[..., Any], step: str, location: str) -> bool:
    """Whether a mapper of values takes (key, value) rather than (value); TopologyError if neither."""
    if callable(mapper) and not accepts(mapper, 1) and accepts(mapper, 2):
        return True
    check_function(mapper, step, 1, location)
    return False
