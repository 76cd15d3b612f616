"""The kinds of node a topology is made of. A node says what happens, not how: `compile` turns each kind into code.

A new kind (a window, a join) is a class here, a method of the DSL that adds it, and an emitter in `emit_*`.
Nodes are made once, by the DSL, and not changed after the topology is built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kstreams_worker.topology.form import Materialized
from kstreams_worker.topology.serdes import Serde


@dataclass(frozen=True, slots=True)
class RepartitionTopic:
    """An internal topic between two sub-topologies. `partitions` None: as many as the largest input of the writing side."""

    name: str
    partitions: int | None = None

    @property
    def title(self) -> str:
        """The name without the application's id, as descriptions show it."""
        return f"{self.name}-repartition"

    def topic(self, application_id: str) -> str:
        """The real topic's name."""
        return f"{application_id}-{self.title}"


@dataclass(eq=False, kw_only=True, slots=True)
class Node:
    """One step of the topology. `location` is the user's call that added it."""

    name: str
    location: str
    parents: list[Node] = field(default_factory=list, repr=False)
    children: list[Node] = field(default_factory=list, repr=False)

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the stores it reads or writes."""
        return ()

    @property
    def traits(self) -> tuple[str, ...]:
        """What the fingerprint covers beside kind, name, parents and stores."""
        return ()


@dataclass(eq=False, kw_only=True, slots=True)
class SourceNode(Node):
    topics: tuple[str, ...]
    key: Serde
    value: Serde
    repartition: RepartitionTopic | None = None
    """Set for the reading end of an internal topic; `topics` then holds its title."""

    @property
    def traits(self) -> tuple[str, ...]:
        partitions = str(self.repartition.partitions) if self.repartition else ""
        return (*self.topics, self.key.name, self.value.name, partitions)


@dataclass(eq=False, kw_only=True, slots=True)
class SinkNode(Node):
    topic: str
    key: Serde
    value: Serde
    repartition: RepartitionTopic | None = None

    @property
    def traits(self) -> tuple[str, ...]:
        return (self.topic, self.key.name, self.value.name)


@dataclass(eq=False, kw_only=True, slots=True)
class FilterNode(Node):
    predicate: Callable[[Any, Any], object]
    negated: bool = False


@dataclass(eq=False, kw_only=True, slots=True)
class KeyPresentNode(Node):
    """Drops records without a key before a repartition topic: they belong to no partition."""


@dataclass(eq=False, kw_only=True, slots=True)
class MapNode(Node):
    mapper: Callable[[Any, Any], tuple[Any, Any]]


@dataclass(eq=False, kw_only=True, slots=True)
class FlatMapNode(Node):
    mapper: Callable[[Any, Any], Any]


@dataclass(eq=False, kw_only=True, slots=True)
class MapValuesNode(Node):
    mapper: Callable[..., Any]
    takes_key: bool = False


@dataclass(eq=False, kw_only=True, slots=True)
class FlatMapValuesNode(Node):
    mapper: Callable[..., Any]
    takes_key: bool = False


@dataclass(eq=False, kw_only=True, slots=True)
class SelectKeyNode(Node):
    selector: Callable[[Any, Any], Any]


@dataclass(eq=False, kw_only=True, slots=True)
class PeekNode(Node):
    action: Callable[[Any, Any], object]


@dataclass(eq=False, kw_only=True, slots=True)
class MergeNode(Node):
    key: Serde | None
    """The serde of the keys of all its parents, where it is known."""


@dataclass(eq=False, kw_only=True, slots=True)
class SplitNode(Node):
    """Sends a record to its first child whose predicate holds; None stands for "all that is left"."""

    predicates: tuple[Callable[[Any, Any], object] | None, ...]


@dataclass(eq=False, kw_only=True, slots=True)
class BranchNode(Node):
    """One outcome of a SplitNode."""


@dataclass(eq=False, kw_only=True, slots=True)
class ProcessNode(Node):
    """A user's own processor: a function of (key, value, context), or a factory of Processor objects, one per task."""

    processor: Callable[..., Any]
    is_factory: bool
    connected_stores: tuple[str, ...] = ()

    @property
    def stores(self) -> tuple[str, ...]:
        return self.connected_stores


@dataclass(eq=False, kw_only=True, slots=True)
class TableNode(Node):
    """A step whose records are changes of a table: the newest value of a key, None where the key is gone.

    With a store it keeps the table. `keeps_old`: something downstream needs the replaced value too.
    """

    key: Serde | None
    value: Serde | None
    store: str | None = None
    keeps_old: bool = False

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,) if self.store else ()

    @property
    def traits(self) -> tuple[str, ...]:
        return (self.key.name if self.key else "", self.value.name if self.value else "")


@dataclass(eq=False, kw_only=True, slots=True)
class TableSourceNode(TableNode):
    reserved_store: str
    """The store's name if it comes to need one: a table that nobody names or looks back into keeps nothing."""
    options: Materialized


@dataclass(eq=False, kw_only=True, slots=True)
class TableFilterNode(TableNode):
    predicate: Callable[[Any, Any], object]
    negated: bool = False


@dataclass(eq=False, kw_only=True, slots=True)
class TableMapValuesNode(TableNode):
    mapper: Callable[..., Any]
    takes_key: bool = False


@dataclass(eq=False, kw_only=True, slots=True)
class CountNode(TableNode):
    pass


@dataclass(eq=False, kw_only=True, slots=True)
class ReduceNode(TableNode):
    reducer: Callable[[Any, Any], Any]


@dataclass(eq=False, kw_only=True, slots=True)
class AggregateNode(TableNode):
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]


@dataclass(eq=False, kw_only=True, slots=True)
class TableSelectNode(Node):
    """Gives each row of a table its group's key; a change becomes the old row's leaving and the new row's coming."""

    selector: Callable[[Any, Any], tuple[Any, Any]]


@dataclass(eq=False, kw_only=True, slots=True)
class TableAggregateNode(TableNode):
    initializer: Callable[[], Any]
    adder: Callable[[Any, Any, Any], Any]
    subtractor: Callable[[Any, Any, Any], Any]


@dataclass(eq=False, kw_only=True, slots=True)
class TableReduceNode(TableNode):
    adder: Callable[[Any, Any], Any]
    subtractor: Callable[[Any, Any], Any]


@dataclass(eq=False, kw_only=True, slots=True)
class ToStreamNode(Node):
    pass
