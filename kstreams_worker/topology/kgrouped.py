"""KGroupedStream: aggregations of a stream's records by key. Each gives a KTable, kept in a store.

Records with a null key or a null value are ignored. A result's timestamp is the largest of the records in it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kstreams_worker.topology import serdes
from kstreams_worker.topology.checks import call_site, check_function
from kstreams_worker.topology.form import Form, Materialized
from kstreams_worker.topology.graph import Graph
from kstreams_worker.topology.ktable import KTable
from kstreams_worker.topology.nodes import AggregateNode, CountNode, Node, ReduceNode, RepartitionTopic, TableNode
from kstreams_worker.topology.serdes import SerdeLike


class KGroupedStream:
    """Records by key, made by KStream.group_by_key() and group_by()."""

    def __init__(self, graph: Graph, node: Node, key: Form, value: Form, *, rekeyed: bool, name: str | None) -> None:
        self._graph = graph
        self._node = node
        self._key = key
        self._value = value
        self._rekeyed = rekeyed
        self._name = name
        self._shared_source: Node | None = None
        """The reading end of the named repartition topic, once there is one."""

    def count(self, *, materialized: str | Materialized | None = None, name: str | None = None) -> KTable:
        """The number of records of each key; an int (eight bytes in the store and downstream)."""
        location = call_site()
        return self._aggregate(
            CountNode,
            step="count()",
            prefix="KSTREAM-AGGREGATE-",
            result=Form(serdes.long),
            materialized=materialized,
            name=name,
            location=location,
        )

    def reduce(
        self,
        reducer: Callable[[Any, Any], Any],
        *,
        materialized: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """The values of each key folded by `reducer(aggregate, value)`; the first value is the first aggregate."""
        location = call_site()
        check_function(reducer, "reduce()", 2, location)
        return self._aggregate(
            partial(ReduceNode, reducer=reducer),
            step="reduce()",
            prefix="KSTREAM-REDUCE-",
            result=self._value,
            materialized=materialized,
            name=name,
            location=location,
        )

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        *,
        value: SerdeLike | None = None,
        materialized: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """`aggregator(key, value, aggregate)` for each record, from `initializer()` on; None deletes the key.

        It may change the aggregate in place, but must return it. `value` is the aggregate's serde, JSON if the
        stream's values are.
        """
        location = call_site()
        check_function(initializer, "aggregate()'s initializer", 0, location)
        check_function(aggregator, "aggregate()'s aggregator", 3, location)
        return self._aggregate(
            partial(AggregateNode, initializer=initializer, aggregator=aggregator),
            step="aggregate()",
            prefix="KSTREAM-AGGREGATE-",
            result=self._value.changed(value, "aggregate()", location),
            materialized=materialized,
            name=name,
            location=location,
        )

    def _aggregate(
        self,
        make: Callable[..., TableNode],
        *,
        step: str,
        prefix: str,
        result: Form,
        materialized: str | Materialized | None,
        name: str | None,
        location: str,
    ) -> KTable:
        store = Materialized.of(materialized)
        key = self._key.needed("key", step, location)
        value = result.needed("value", step, location)
        store_name = store.name or self._graph.number(f"{prefix}STATE-STORE-")
        name = self._graph.node_name(name, prefix, location)
        parent = self._repartitioned(step, store_name, store.name is None, location) if self._rekeyed else self._node
        node = make(name=name, location=location, key=key, value=value, store=store_name)
        self._graph.add_store(store_name, key, value, location, table=True, logged=store.logged, cached=store.cached)
        self._graph.add(node, [parent])
        return KTable(self._graph, node, self._key, result)

    def _repartitioned(self, step: str, store_name: str, store_is_numbered: bool, location: str) -> Node:
        """The stream by way of a repartition topic: the group's own if it has a name, else one for this store."""
        serdes_needed = self._key.needed("key", step, location), self._value.needed("value", step, location)
        topic_name = self._name or store_name
        steps = self._graph.cut_steps(topic_name, location, numbered=self._name is None and store_is_numbered)
        if self._shared_source is not None:
            return self._shared_source
        source = self._graph.add_repartition(self._node, RepartitionTopic(topic_name), serdes_needed, steps)
        if self._name is not None:
            self._shared_source = source
        return source
