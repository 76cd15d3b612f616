"""KTable and KGroupedTable: steps on the newest value of each key.

What flows between these steps are changes: a key's new value, None where the key is gone. A step that must take the
replaced value back out (a grouping) also gets that one, from the nearest store above it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kstreams_worker.topology import kstream, serdes
from kstreams_worker.topology.checks import call_site, check_function
from kstreams_worker.topology.form import Form, Materialized
from kstreams_worker.topology.graph import CutSteps, Graph
from kstreams_worker.topology.nodes import (
    RepartitionTopic,
    TableAggregateNode,
    TableFilterNode,
    TableMapValuesNode,
    TableNode,
    TableReduceNode,
    TableSelectNode,
    TableSourceNode,
    ToStreamNode,
)
from kstreams_worker.topology.serdes import SerdeLike, changes_of


class KTable:
    """A table: the newest value of each key. Made by StreamsBuilder.table(), by aggregations and by the steps below."""

    def __init__(self, graph: Graph, node: TableNode, key: Form, value: Form) -> None:
        self._graph = graph
        self._node = node
        self._key = key
        self._value = value

    @property
    def store_name(self) -> str | None:
        """The store that keeps this table; None if it is only computed on the way."""
        return self._node.store

    def filter(
        self,
        predicate: Callable[[Any, Any], object],
        *,
        materialized: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """The rows for which `predicate(key, value)` is true. A row that stops being so is deleted downstream."""
        return self._filter("filter()", predicate, False, materialized, name)

    def filter_not(
        self,
        predicate: Callable[[Any, Any], object],
        *,
        materialized: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """The rows for which `predicate(key, value)` is false."""
        return self._filter("filter_not()", predicate, True, materialized, name)

    def _filter(
        self,
        step: str,
        predicate: Callable[[Any, Any], object],
        negated: bool,
        materialized: str | Materialized | None,
        name: str | None,
    ) -> KTable:
        location = call_site()
        check_function(predicate, step, 2, location)
        node = TableFilterNode(
            name=self._graph.node_name(name, "KTABLE-FILTER-", location),
            location=location,
            key=self._key.serde,
            value=self._value.serde,
            predicate=predicate,
            negated=negated,
        )
        return self._then(node, self._value, materialized, step)

    def map_values(
        self,
        mapper: Callable[..., Any],
        *,
        value: SerdeLike | None = None,
        materialized: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """Each row's value replaced by `mapper(value)`, or by `mapper(key, value)` if it takes two."""
        location = call_site()
        takes_key = kstream.takes_key_too(mapper, "map_values()", location)
        form = self._value.changed(value, "map_values()", location)
        node = TableMapValuesNode(
            name=self._graph.node_name(name, "KTABLE-MAPVALUES-", location),
            location=location,
            key=self._key.serde,
            value=form.serde,
            mapper=mapper,
            takes_key=takes_key,
        )
        return self._then(node, form, materialized, "map_values()")

    def to_stream(self, *, name: str | None = None) -> kstream.KStream:
        """The table's changes as a stream of records; a null value says that a key is gone."""
        location = call_site()
        node = ToStreamNode(name=self._graph.node_name(name, "KTABLE-TOSTREAM-", location), location=location)
        self._graph.add(node, [self._node])
        return kstream.KStream(self._graph, node, self._key, self._value)

    def group_by(
        self,
        selector: Callable[[Any, Any], tuple[Any, Any]],
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KGroupedTable:
        """Groups rows: `selector(key, value)` returns the group's key, whose serde is `key`, and the value in the group."""
        location = call_site()
        check_function(selector, "group_by()", 2, location)
        key_form = self._key.forgotten(key, "group_by()", location)
        value_form = self._value.changed(value, "group_by()", location)
        key_form.needed("key", "group_by()", location)
        value_form.needed("value", "group_by()", location)
        select_name = self._graph.node_name(name, "KTABLE-SELECT-", location)
        node = TableSelectNode(name=select_name, location=location, selector=selector)
        self._keep_old_values()
        self._graph.add(node, [self._node])
        return KGroupedTable(self._graph, node, key_form, value_form, name)

    def _then(self, node: TableNode, value: Form, materialized: str | Materialized | None, step: str) -> KTable:
        if materialized is not None:
            store = Materialized.of(materialized)
            keep(self._graph, node, store, store.name or self._graph.number(f"{node.name}-STATE-STORE-"))
        self._graph.add(node, [self._node])
        return KTable(self._graph, node, self._key, value)

    def _keep_old_values(self) -> None:
        """Makes the steps from the nearest store down to here pass on replaced values; a source gets a store if needed."""
        node = self._node
        node.keeps_old = True
        while node.store is None:
            if isinstance(node, TableSourceNode):
                keep(self._graph, node, node.options, node.reserved_store)
                return
            parent = node.parents[0]
            assert isinstance(parent, TableNode)
            node = parent
            node.keeps_old = True


def keep(graph: Graph, node: TableNode, options: Materialized, store_name: str) -> None:
    """Gives a table's step its store."""
    step = f"the store {store_name!r}"
    key = Form(node.key).needed("key", step, node.location)
    value = Form(node.value, f"the step at {node.location}").needed("value", step, node.location)
    graph.add_store(store_name, key, value, node.location, table=True, logged=options.logged, cached=options.cached)
    node.store = store_name


def _count_in(_key: Any, _value: Any, count: int) -> int:
    return count + 1


def _count_out(_key: Any, _value: Any, count: int) -> int:
    return count - 1


class KGroupedTable:
    """A table's rows by group. An aggregation adds a row when it comes and subtracts it when it changes or goes."""

    def __init__(self, graph: Graph, node: TableSelectNode, key: Form, value: Form, name: str | None) -> None:
        self._graph = graph
        self._node = node
        self._key = key
        self._value = value
        self._name = name

    def count(self, *, materialized: str | Materialized | None = None, name: str | None = None) -> KTable:
        """The number of rows of each group; an int."""
        location = call_site()
        return self._aggregate(
            partial(TableAggregateNode, initializer=int, adder=_count_in, subtractor=_count_out),
            step="count()",
            prefix="KTABLE-AGGREGATE-",
            result=Form(serdes.long),
            materialized=materialized,
            name=name,
            location=location,
        )

    def reduce(
        self,
        adder: Callable[[Any, Any], Any],
        subtractor: Callable[[Any, Any], Any],
        *,
        materialized: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """Folds rows in by `adder(aggregate, value)` and out by `subtractor(aggregate, value)`."""
        location = call_site()
        check_function(adder, "reduce()'s adder", 2, location)
        check_function(subtractor, "reduce()'s subtractor", 2, location)
        return self._aggregate(
            partial(TableReduceNode, adder=adder, subtractor=subtractor),
            step="reduce()",
            prefix="KTABLE-REDUCE-",
            result=self._value,
            materialized=materialized,
            name=name,
            location=location,
        )

    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
        *,
        value: SerdeLike | None = None,
        materialized: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """`adder(key, value, aggregate)` and `subtractor(key, value, aggregate)`, from `initializer()` on."""
        location = call_site()
        check_function(initializer, "aggregate()'s initializer", 0, location)
        check_function(adder, "aggregate()'s adder", 3, location)
        check_function(subtractor, "aggregate()'s subtractor", 3, location)
        return self._aggregate(
            partial(TableAggregateNode, initializer=initializer, adder=adder, subtractor=subtractor),
            step="aggregate()",
            prefix="KTABLE-AGGREGATE-",
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
        row_value = self._value.needed("value", step, location)
        result_value = result.needed("value", step, location)
        store_name = store.name or self._graph.number("KTABLE-AGGREGATE-STATE-STORE-")
        sink_name = self._graph.node_name(f"{name}-sink" if name else None, "KSTREAM-SINK-", location)
        source_name = self._graph.node_name(f"{name}-source" if name else None, "KSTREAM-SOURCE-", location)
        node_name = self._graph.node_name(name, prefix, location)
        source = self._graph.add_repartition(
            self._node,
            RepartitionTopic(self._name or store_name),
            (key, changes_of(row_value)),
            CutSteps(sink_name, None, source_name, location),
        )
        node = make(name=node_name, location=location, key=key, value=result_value, store=store_name)
        self._graph.add_store(
            store_name, key, result_value, location, table=True, logged=store.logged, cached=store.cached
        )
        self._graph.add(node, [source])
        return KTable(self._graph, node, self._key, result)
