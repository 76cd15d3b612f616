"""Kafka Streams' way of working, in Python: topologies, stores, and workers that scale without stopping.

    from kstreams_worker import StreamsBuilder

    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value="json")
    orders.group_by_key().count().to_stream().to("orders-per-customer")
    topology = builder.build()

What is exported here is the public interface. Names are loaded when first used, so that importing the package is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kstreams_worker.errors import KStreamsError as KStreamsError
    from kstreams_worker.errors import RecordError as RecordError
    from kstreams_worker.errors import TopologyError as TopologyError
    from kstreams_worker.topology import serdes as serdes
    from kstreams_worker.topology.builder import StreamsBuilder as StreamsBuilder
    from kstreams_worker.topology.form import Materialized as Materialized
    from kstreams_worker.topology.kgrouped import KGroupedStream as KGroupedStream
    from kstreams_worker.topology.kstream import KStream as KStream
    from kstreams_worker.topology.ktable import KGroupedTable as KGroupedTable
    from kstreams_worker.topology.ktable import KTable as KTable
    from kstreams_worker.topology.processor import Processor as Processor
    from kstreams_worker.topology.processor import ProcessorContext as ProcessorContext
    from kstreams_worker.topology.serdes import Serde as Serde
    from kstreams_worker.topology.store_view import StoreView as StoreView
    from kstreams_worker.topology.topology import Topology as Topology

_HOMES = {
    "KGroupedStream": "kstreams_worker.topology.kgrouped",
    "KGroupedTable": "kstreams_worker.topology.ktable",
    "KStream": "kstreams_worker.topology.kstream",
    "KStreamsError": "kstreams_worker.errors",
    "KTable": "kstreams_worker.topology.ktable",
    "Materialized": "kstreams_worker.topology.form",
    "Processor": "kstreams_worker.topology.processor",
    "ProcessorContext": "kstreams_worker.topology.processor",
    "RecordError": "kstreams_worker.errors",
    "Serde": "kstreams_worker.topology.serdes",
    "StoreView": "kstreams_worker.topology.store_view",
    "StreamsBuilder": "kstreams_worker.topology.builder",
    "Topology": "kstreams_worker.topology.topology",
    "TopologyError": "kstreams_worker.errors",
}

__all__ = [
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KStreamsError",
    "KTable",
    "Materialized",
    "Processor",
    "ProcessorContext",
    "RecordError",
    "Serde",
    "StoreView",
    "StreamsBuilder",
    "Topology",
    "TopologyError",
    "serdes",
]


def __getattr__(name: str) -> Any:
    if name == "serdes":
        return import_module("kstreams_worker.topology.serdes")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
