"""Walks the nodes of a sub-topology and lets each kind write its code, fused into the loop it is reached from.

How code is laid out. Each source has a function with one loop over a batch's columns; the steps below it are written
into that loop: filters as `if`, mappings as assignments. A step that several others lead to, or that lies deep, becomes a
function of its own, so that the code grows with the number of steps and not of paths. A cached table's steps are not
reached from the loop but from `flush`, one loop over what the store has staged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kstreams_worker.topology.code import Code, Line, Row, Slot
from kstreams_worker.topology.nodes import MergeNode, Node, SourceNode, TableNode
from kstreams_worker.topology.serdes import Serde, same_bytes
from kstreams_worker.topology.topology import SubTopology

DEEPEST_LEVEL = 14
"""Past this the steps go on in a function of their own: Python allows 20 nested loops and 100 levels of indentation."""

SMALL_TREE = 3
"""A shared step with at most this many steps in its tree is written out once per parent: cheaper than a call."""


@dataclass(slots=True)
class Outlined:
    """A step that is a function of its own, and which of the record's parts its body turned out to need."""

    name: str
    needs_key: bool = False
    raw_key_serde: Serde | None = None
    needs_value: bool = False
    needs_time: bool = False
    needs_old: bool = False

    def parameters(self) -> list[str]:
        names = {"key": self.needs_key, "raw_key": self.raw_key_serde is not None}
        names |= {"value": self.needs_value, "old": self.needs_old, "time": self.needs_time}
        return [name for name, needed in names.items() if needed]


@dataclass(slots=True)
class Chain:
    """The state of one compilation. `constants` are the globals of the generated module: user functions and serdes."""

    subtopology: SubTopology
    application_id: str
    cached: bool
    emitters: Mapping[type[Node], Callable[[Chain, Any, Row], None]]
    code: Code = field(default_factory=Code)
    constants: dict[str, Any] = field(default_factory=dict)
    setup: list[str] = field(default_factory=list)
    """Lines at the head of bind(): what a task brings."""
    late_setup: list[str] = field(default_factory=list)
    """Lines after bind()'s functions: what needs those."""
    functions: list[list[Line]] = field(default_factory=list)
    _outlined: dict[str, Outlined] = field(default_factory=dict)
    _constant_names: dict[int, str] = field(default_factory=dict)
    _row_lists: dict[str, str] = field(default_factory=dict)
    _store_names: dict[str, tuple[str, str, str]] = field(default_factory=dict)

    # Walking

    def children(self, node: Node, row: Row) -> None:
        """Writes the code of the steps after `node`, in the current block."""
        for child in node.children:
            self.visit(child, row)

    def visit(self, node: Node, row: Row) -> None:
        shared = len(node.parents) > 1 and _tree_size(node) > SMALL_TREE
        if shared or self.code.level >= DEEPEST_LEVEL or node.name in self._outlined:
            self._call(node, row)
        else:
            self.emit(node, row)

    def emit(self, node: Node, row: Row) -> None:
        outer, self.code.step = self.code.step, node
        self.emitters[type(node)](self, node, row)
        self.code.step = outer

    def function(self, name: str, parameters: list[str], body: list[Line], step: Node | None) -> None:
        """Adds a function to bind()'s body. `body` was written at level 2."""
        head = Line(1, f"def {name}({', '.join(parameters)}):", step)
        self.functions.append([head, *(body or [Line(2, "pass", step)])])

    def _call(self, node: Node, row: Row) -> None:
        """Calls the function of a step, written at the first call."""
        outlined = self._outlined.get(node.name)
        if outlined is None:
            outlined = self._outlined[node.name] = self._outline(node, row)
        arguments = []
        for parameter in outlined.parameters():
            if parameter == "key":
                arguments.append(self.key(row))
            elif parameter == "raw_key":
                assert outlined.raw_key_serde is not None
                arguments.append(self.raw_key(row, outlined.raw_key_serde))
            elif parameter == "old":
                arguments.append("None" if row.old is None else self.code.use(row.old))
            else:
                arguments.append(self.code.use(row.value if parameter == "value" else row.time))
        self.code.line(f"{outlined.name}({', '.join(arguments)})")

    def _outline(self, node: Node, row: Row) -> Outlined:
        """Writes a step's function. Its raw key is taken as a parameter only where every caller's key has the same serde."""
        outlined = Outlined(self.code.fresh("after"))
        key_serde = node.key if isinstance(node, MergeNode) else row.key_serde
        key, raw_key, value = Slot("key"), Slot("raw_key"), Slot("value")
        old, time = Slot("old"), Slot("time")
        with self.code.apart(2) as body:
            inner = Row(
                key=key,
                key_serde=key_serde,
                raw_keys={key_serde.name: raw_key} if key_serde else {},
                value=value,
                raw_values={},
                time=time,
                old=None if row.old is None else old,
            )
            self.emit(node, inner)
        outlined.needs_key = key.used
        outlined.raw_key_serde = key_serde if raw_key.used else None
        outlined.needs_value, outlined.needs_time, outlined.needs_old = value.used, time.used, old.used
        self.function(outlined.name, outlined.parameters(), body, node)
        return outlined

    # The record's parts, converted where they are first wanted

    def key(self, row: Row) -> str:
        """The decoded key's variable."""
        if row.key is None:
            assert row.key_serde is not None
            raw = self.code.use(row.raw_keys[row.key_serde.name])
            row.key = self._converted("key", raw, self.decoder(row.key_serde), row.key_may_be_null)
        return self.code.use(row.key)

    def raw_key(self, row: Row, serde: Serde) -> str:
        """The variable of the key as `serde` writes it."""
        if serde.name not in row.raw_keys:
            key = self.key(row)
            row.raw_keys[serde.name] = self._converted("raw_key", key, self.encoder(serde), row.key_may_be_null)
        return self.code.use(row.raw_keys[serde.name])

    def any_key(self, row: Row) -> str:
        """A variable that is None where the key is null, encoded or not, whichever costs nothing."""
        for raw in row.raw_keys.values():
            return self.code.use(raw)
        return self.key(row)

    def value(self, row: Row) -> str:
        return self.code.use(row.value)

    def raw_value(self, row: Row, serde: Serde) -> str:
        """The variable of the value as `serde` writes it; the very bytes that were read if nothing changed it."""
        if serde.name not in row.raw_values:
            row.raw_values[serde.name] = self._converted(
                "raw_value", self.value(row), self.encoder(serde), row.value_may_be_null
            )
        return self.code.use(row.raw_values[serde.name])

    def time(self, row: Row) -> str:
        return self.code.use(row.time)

    def _converted(self, name: str, variable: str, function: str | None, may_be_null: bool) -> Slot:
        if function is None:
            return Slot(variable)
        target = self.code.fresh(name)
        converted = f"{function}({variable})"
        self.code.line(
            f"{target} = None if {variable} is None else {converted}" if may_be_null else f"{target} = {converted}"
        )
        return Slot(target)

    # What the generated module refers to

    def constant(self, prefix: str, thing: Any) -> str:
        """The global by which generated code knows `thing`."""
        name = self._constant_names.get(id(thing))
        if name is None:
            name = self._constant_names[id(thing)] = f"{prefix}_{len(self._constant_names)}"
            self.constants[name] = thing
        return name

    def decoder(self, serde: Serde) -> str | None:
        """The decoding function's name; None where bytes are taken as they are."""
        return None if serde.decode is same_bytes else self.constant("decode", serde.decode)

    def encoder(self, serde: Serde) -> str:
        return self.constant("encode", serde.encode)

    def rows(self, topic: str) -> str:
        """The name of the function that appends a row to a topic's output."""
        name = self._row_lists.get(topic)
        if name is None:
            number = len(self._row_lists)
            name = self._row_lists[topic] = f"append_{number}"
            self.setup.append(f"rows_{number} = task.rows({topic!r})")
            self.setup.append(f"{name} = rows_{number}.append")
        return name

    def store(self, node: TableNode) -> tuple[str, str, str]:
        """Names of a step's `dirty` dict, its `load` function and, if it keeps old values, the dict of those."""
        assert node.store is not None
        names = self._store_names.get(node.store)
        if names is None:
            number = len(self._store_names)
            names = self._store_names[node.store] = f"dirty_{number}", f"load_{number}", f"before_{number}"
            self.setup.append(f"store_{number} = task.store({node.store!r})")
            self.setup.append(f"{names[0]}, {names[1]} = store_{number}.dirty, store_{number}.load")
            self.setup.append(f"{names[0]}_get, {names[0]}_cached = {names[0]}.get, store_{number}.cached")
            if node.keeps_old and self.is_cached(node):
                self.setup.append(f"{names[2]} = {{}}")
        return names

    def store_object(self, node: TableNode) -> str:
        """The name of a step's store itself."""
        return self.store(node)[0].replace("dirty", "store")

    def topics_of(self, source: SourceNode) -> tuple[str, ...]:
        """The real names of a source's topics."""
        return (source.repartition.topic(self.application_id),) if source.repartition else source.topics

    def is_cached(self, node: TableNode) -> bool:
        """Whether a table's step forwards at flush rather than at once."""
        spec = next(spec for spec in self.subtopology.stores if spec.name == node.store)
        return self.cached and spec.cached


def _tree_size(node: Node) -> int:
    """Steps below a node and itself; counting stops past SMALL_TREE, as paths may be very many."""
    size = 1
    for child in node.children:
        size += _tree_size(child)
        if size > SMALL_TREE:
            break
    return size
